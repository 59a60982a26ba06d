package adapter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/channel/chat"
	"mailroom/store"
)

// picture is a piece of an album, or a message of its own, with a file.
func (w *fixture) picture(at chat.Room, user, album, text, name string, file *slowFile) chat.Event {
	return w.platform.AddEvent(chat.Event{
		Kind: chat.EventMessage, Room: at, User: chat.User{ID: user, Name: "x"}, Text: text, Album: album,
		Files: []chat.File{w.platform.File(name, file.open)}, Addressed: strings.Contains(text, "@bot"),
	})
}

func released() *slowFile {
	f := newSlowFile()
	f.release()
	return f
}

// The downloads of an album take longer than any wait for more, and end in any order.
func TestAnAlbumIsOneRun(t *testing.T) {
	inBubble(t, 0, func(w *fixture) {
		slow, at := newSlowFile(), PrivateRoom(boss)
		w.picture(at, boss, "g", "look", "a.txt", released())
		w.picture(at, boss, "g", "", "b.txt", slow)
		w.later(15 * time.Second)
		w.picture(at, boss, "g", "", "c.txt", released())
		wantEqual(t, "messages before the download", w.heard(), nil)
		slow.release()
		w.later(2 * time.Second)
		wantEqual(t, "messages", w.heard(),
			[]string{"look\nFile a.txt:\ncontent\nFile b.txt:\ncontent\nFile c.txt:\ncontent"})
		w.picture(at, boss, "g2", "one", "a.txt", released())
		w.later(2 * time.Second)
		w.picture(at, boss, "", "two", "a.txt", released())
		w.picture(at, boss, "", "three", "a.txt", released())
		w.later(2 * time.Second)
		wantEqual(t, "number of messages", len(w.heard()), 4)
	})
}

// The pieces are in the backlog, and the next connection reads them as the last one would have.
func TestAnAlbumOfTheBacklogIsOneRunAfterAReconnect(t *testing.T) {
	inBubble(t, 0, func(w *fixture) {
		slow, at := newSlowFile(), PrivateRoom(boss)
		w.picture(at, boss, "g", "look", "a.txt", slow)
		w.picture(at, boss, "g", "", "b.txt", released())
		w.platform.AwaitReceived()
		w.stop()
		slow.release()
		w.start()
		w.later(3 * time.Second)
		wantEqual(t, "messages", w.heard(), []string{"look\nFile a.txt:\ncontent\nFile b.txt:\ncontent"})
	})
}

// Files that a user sends one after the other, and what is said about them.
func TestFilesThatComeTogetherAreOneRun(t *testing.T) {
	inBubble(t, time.Second, func(w *fixture) {
		slow, at := newSlowFile(), PrivateRoom(boss)
		w.picture(at, boss, "", "", "a.txt", released())
		w.picture(at, boss, "", "", "b.txt", slow)
		w.platform.SendPrivate(boss, "compare them")
		w.later(15 * time.Second)
		slow.release()
		w.later(2 * time.Second)
		wantEqual(t, "messages", w.heard(), []string{"File a.txt:\ncontent\nFile b.txt:\ncontent\ncompare them"})
	})
}

// One piece has the text with the mention of the bot: the first one, or the last one.
func TestAnAlbumOfAGroupIsForTheBotAsAWhole(t *testing.T) {
	inBubble(t, time.Second, func(w *fixture) {
		at := GroupRoom(room)
		w.picture(at, boss, "g1", "@bot look", "a.txt", released())
		w.picture(at, boss, "g1", "", "b.txt", released())
		w.picture(at, friend, "g1", "", "g.txt", released()) // of another user
		w.later(2 * time.Second)
		w.picture(at, boss, "g2", "", "c.txt", released())
		w.picture(at, friend, "g2", "", "h.txt", released()) // of another user, who sends an album at the same time
		w.picture(at, boss, "g2", "@bot look", "d.txt", released())
		w.later(2 * time.Second)
		w.picture(at, boss, "g3", "between us", "e.txt", released())
		w.picture(at, boss, "g3", "", "f.txt", released())
		w.later(2 * time.Second)
		var names []string
		for _, text := range w.heard() {
			for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				if strings.Contains(text, "File "+name+".txt") {
					names = append(names, name)
				}
			}
			names = append(names, ".")
		}
		wantEqual(t, "files of the runs", strings.Join(names, ""), "ab.cd.")
	})
}

// A platform delivers the pieces again until the album is complete.
func TestThePiecesOfAnAlbumMayComeAgain(t *testing.T) {
	inBubble(t, time.Second, func(w *fixture) {
		at := GroupRoom(room)
		w.picture(at, boss, "g", "", "a.txt", released())
		w.picture(at, boss, "g", "", "b.txt", released())
		for range 3 {
			w.platform.Redeliver(0)
		}
		w.picture(at, boss, "g", "", "c.txt", released())
		w.picture(at, boss, "g", "@bot look", "d.txt", released())
		w.later(2 * time.Second)
		wantEqual(t, "messages", len(w.heard()), 1)
		wantEqual(t, "files", strings.Count(w.heard()[0], "File "), 4)
	})
}

// TestAnAlbumOutlivesAKill kills the server at each write of an album and a text behind it. No piece is lost or read
// twice, and their order stays.
func TestAnAlbumOutlivesAKill(t *testing.T) {
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprint("applied=", applied), func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				w := newFixture(t)
				w.access.Join = 30 * time.Millisecond
				w.start()
				died := w.faults.arm(n, applied)
				w.picture(PrivateRoom(boss), boss, "g", "look", "a.txt", released())
				w.picture(PrivateRoom(boss), boss, "g", "", "b.txt", released())
				w.platform.SendPrivate(boss, "after")
				w.await("the kill, or the end", func(store.Reader) bool {
					select {
					case <-died:
						return true
					default:
						return strings.Contains(strings.Join(w.awaitHeard(0), "\n"), "after")
					}
				})
				killed := w.faults.isDead()
				if killed {
					w.stop()
					w.faults.revive()
					w.start()
				}
				w.await("all messages", func(store.Reader) bool {
					return strings.Contains(strings.Join(w.awaitHeard(0), "\n"), "after")
				})
				w.awaitSettled()
				want := "look\nFile a.txt:\ncontent\nFile b.txt:\ncontent\nafter"
				wantEqual(t, fmt.Sprintf("messages, killed at write %d", n), strings.Join(w.awaitHeard(0), "\n"), want)
				w.stop()
				if !killed {
					if n < 8 {
						t.Errorf("%d writes", n-1)
					}
					return
				}
			}
		})
	}
}
