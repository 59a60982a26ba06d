package matrix_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/matrix/matrixtest"
)

// startServer starts a server whose echoing agent Ann may use.
func startServer(t *testing.T, url string) *world {
	t.Helper()
	w := newWorld(t, url, "")
	s := channeltest.NewServer(t, newPlatform(t, w))
	s.Options.Access = chat.AccessPolicy{Admins: []string{w.ann.ID}, Pairing: true}
	s.Start()
	return w
}

// waitMessage waits for a message of the bot that begins with a text.
func waitMessage(t *testing.T, w *world, who *matrixtest.Person, room, words string) {
	t.Helper()
	matrixtest.WaitFor(t, words, func() bool {
		return slices.ContainsFunc(who.Texts(room, w.bot), func(s string) bool { return strings.HasPrefix(s, words) })
	})
}

// TestOnlyAllowedUsersCanInviteTheBot also checks that a private room with a stranger serves for
// pairing only.
func TestOnlyAllowedUsersCanInviteTheBot(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := startServer(t, url)
		bob := matrixtest.NewPerson(t, url, "stranger", "Bob")
		group := bob.NewRoom(false, w.bot)
		private := bob.NewRoom(true, w.bot)
		matrixtest.WaitFor(t, "the bot there", func() bool { return bob.IsIn(private, w.bot) })
		bob.Says(private, "hello?")
		waitMessage(t, w, bob, private, "I do not know you.")
		if bob.IsIn(group, w.bot) {
			t.Error("the bot joined a stranger's group")
		}
		w.ann.Says(w.rooms[channeltest.Ann], "yes")
		waitMessage(t, w, w.ann, w.rooms[channeltest.Ann], "yes")
	})
}

// TestAnEncryptedRoomGetsOneNotice is for rooms of authorized users.
func TestAnEncryptedRoomGetsOneNotice(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := startServer(t, url)
		for i := range 3 {
			w.ann.Sends(w.rooms[channeltest.Ann], "m.room.encrypted",
				map[string]any{"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": fmt.Sprint(i)})
		}
		waitMessage(t, w, w.ann, w.rooms[channeltest.Ann], "This room is encrypted")
		w.ann.Says(w.rooms[channeltest.Ann], "yes")
		waitMessage(t, w, w.ann, w.rooms[channeltest.Ann], "yes")
		if got := w.ann.Texts(w.rooms[channeltest.Ann], w.bot); len(got) != 2 {
			t.Errorf("messages of the bot %q", got)
		}
	})
}
