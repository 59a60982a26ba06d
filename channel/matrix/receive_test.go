package matrix_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/matrix/matrixtest"
)

// newGroup creates a room with Ann, Bob and the bot.
func (w *fixture) newGroup(bob *matrixtest.Person) string {
	w.t.Helper()
	room := w.ann.NewRoom(false, w.bot, bob)
	w.bot.Joins(room)
	bob.Joins(room)
	return room
}

func TestMessagesEditsAndDeletionsArrive(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		ann, private := w.ann, w.private
		w.start().waitConnected()
		first := ann.Says(private, "héllo 👋")
		w.waitTexts("héllo 👋") // a message deleted before it is read would not arrive at all
		ann.Edits(private, first, "hello")
		ann.Deletes(private, first)
		ann.Says(private, "waves", map[string]any{"msgtype": "m.emote"})
		notes := ann.Uploads("notes.txt", "text/plain", []byte("one\ntwo"))
		ann.Says(private, "see", map[string]any{"msgtype": "m.file", "filename": "notes.txt", "url": notes, "info": map[string]any{"mimetype": "text/plain", "size": 7}})
		ann.Says(private, "p.jpg", map[string]any{"msgtype": "m.image", "url": notes, "info": map[string]any{"size": "7"}})
		ann.Says(private, "a program's", map[string]any{"msgtype": "m.notice"})
		ann.Says(private, "another's", map[string]any{"org.mailroom.key": "k"})
		ann.Sends(private, "m.room.message", map[string]any{"body": 7})
		ann.Sends(private, "m.reaction", map[string]any{"m.relates_to": map[string]any{"rel_type": "m.annotation", "event_id": first, "key": "👍"}})
		w.bot.Says(private, "its own, from elsewhere")
		root := ann.Says(private, "a thread")
		inThread := ann.Says(private, "in it", matrixtest.Thread(root))
		matrixtest.WaitFor(t, "that", func() bool { return strings.HasSuffix(w.texts(), "in it") })
		ann.Edits(private, inThread, "in it still")
		matrixtest.WaitFor(t, "that", func() bool { return strings.HasSuffix(w.texts(), "in it still") })
		ann.Deletes(private, inThread)
		ann.Says(private, "as older programs do", map[string]any{"m.relates_to": map[string]any{"rel_type": "io.element.thread", "event_id": root}})
		ann.Says(private, "the end")
		matrixtest.WaitFor(t, "all messages", func() bool { return strings.HasSuffix(w.texts(), "the end") })

		said := func(topic string, e chat.Event) chat.Event {
			if e.Kind == "" {
				e.Kind = chat.EventMessage
			}
			e.Room, e.User, e.Addressed = chat.Room{Chat: private, Topic: topic}, chat.User{ID: ann.ID, Name: "Ann"}, e.Kind != chat.EventDeleted
			return e
		}
		w.wantEvents(
			said("", chat.Event{Text: "héllo 👋"}),
			said("", chat.Event{Kind: chat.EventEdited, TargetID: first, Text: "hello"}),
			said("", chat.Event{Kind: chat.EventDeleted, TargetID: first}),
			said("", chat.Event{Text: "* Ann waves"}),
			said("", chat.Event{Text: "see", Files: []chat.File{{Name: "notes.txt", MimeType: "text/plain", Size: 7, URI: notes}}}),
			said("", chat.Event{Files: []chat.File{{Name: "p.jpg", Size: -1, URI: notes}}}),
			said("", chat.Event{Text: "a thread"}),
			said(root, chat.Event{Text: "in it"}),
			said(root, chat.Event{Kind: chat.EventEdited, TargetID: inThread, Text: "in it still"}),
			said(root, chat.Event{Kind: chat.EventDeleted, TargetID: inThread}),
			said(root, chat.Event{Text: "as older programs do"}),
			said("", chat.Event{Text: "the end"}),
		)
	})
}

func TestGroupMessagesToTheBotAreRecognized(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		bob := matrixtest.NewPerson(t, url, "bob", "")
		group := w.newGroup(bob)
		sent, err := w.start().waitConnected().Send(t.Context(), chat.Room{Chat: group, Group: true}, chat.Message{Text: "Go on?"}, "key")
		if err != nil {
			t.Fatal(err)
		}
		to := "https://matrix.to/#/" + w.bot.ID
		for _, text := range []string{
			"just talking of the mail room", "what says @Mail Room to this?", "mail@mailroom is no name, nor is @mailroom:elsewhere.example",
			w.bot.ID + ": !status", "ask " + w.bot.ID + ".",
		} {
			bob.Says(group, text)
		}
		bob.Says(group, "Mail Room !stop", map[string]any{"format": "org.matrix.custom.html", "formatted_body": `<a href="` + to + `">Mail Room</a> !stop`})
		bob.Says(group, "[Mail Room]("+to+") go", map[string]any{"m.mentions": map[string]any{"user_ids": []string{w.bot.ID}}})
		bob.Says(group, "> <"+w.bot.ID+"> Go on?\n> Or not?\n\nyes", matrixtest.ReplyTo(sent))
		bob.Says(group, "no", matrixtest.ReplyTo(w.ann.Says(group, "who is there?")))
		matrixtest.WaitFor(t, "all messages", func() bool { return strings.HasSuffix(w.texts(), "no") })

		said := func(text string, addressed bool) chat.Event {
			return chat.Event{Kind: chat.EventMessage, Room: chat.Room{Chat: group, Group: true}, User: chat.User{ID: bob.ID, Name: "bob"}, Text: text, Addressed: addressed}
		}
		ann := said("who is there?", false)
		ann.User = chat.User{ID: w.ann.ID, Name: "Ann"}
		w.wantEvents(
			said("just talking of the mail room", false),
			said("what says @Mail Room to this?", true),
			said("mail@mailroom is no name, nor is @mailroom:elsewhere.example", false),
			said("!status", true),
			said("ask "+w.bot.ID+".", true),
			said("!stop", true),
			said("go", true),
			said("yes", true),
			ann,
			said("no", false),
		)
	})
}

// wantEvents compares the recorded events and checks that their keys are unique.
func (w *fixture) wantEvents(want ...chat.Event) {
	w.t.Helper()
	keys := map[string]bool{}
	for _, e := range w.recorded() {
		keys[e.Key] = true
	}
	if len(keys) != len(want) {
		w.t.Errorf("%d keys of %d events", len(keys), len(want))
	}
	ignored := cmp.Options{
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Open" }, cmp.Ignore()),
		cmpopts.IgnoreFields(chat.Event{}, "Key", "Position", "Accept"),
	}
	if diff := cmp.Diff(want, w.recorded(), ignored); diff != "" {
		w.t.Error(diff)
	}
}

func TestAFileIsFetchedWhenItIsOpened(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		w.start()
		uri := w.ann.Uploads("notes.txt", "text/plain", []byte("one\ntwo"))
		for _, at := range []string{uri, uri, "mxc://test.example/nothing", "mxc://x/../../y", "https://example.org/x"} {
			w.ann.Says(w.private, "f", map[string]any{"msgtype": "m.file", "filename": "notes.txt", "url": at})
		}
		matrixtest.WaitFor(t, "all of them", func() bool { return len(w.recorded()) == 5 })
		if n := len(w.proxy.Calls("download")); n != 0 {
			t.Errorf("downloaded %d files before they were opened", n)
		}
		all := w.recorded()
		w.proxy.Fail("download", matrixtest.Fault{}, matrixtest.Fault{Status: 404, Code: "M_UNRECOGNIZED", Message: "Unrecognized request"})
		for i := range 2 { // the second time from an older homeserver
			r, err := all[i].Files[0].Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r)
			if string(content) != "one\ntwo" || err != nil || r.Close() != nil {
				t.Errorf("the file has %q, %v", content, err)
			}
		}
		if _, err := all[2].Files[0].Open(t.Context()); sendClass(err) != mailroom.ClassPermanent {
			t.Errorf("missing file: %v", err)
		}
		if len(all[3].Files)+len(all[4].Files) != 0 {
			t.Errorf("invalid URIs were accepted: %+v %+v", all[3].Files, all[4].Files)
		}
	})
}

func TestAFailedEventIsDeliveredAgain(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		w.failWith(func(e chat.Event) error {
			if e.Text == "two" {
				return errors.New("the disk is full")
			}
			return nil
		})
		w.start().waitConnected()
		w.proxy.Down() // so that one response contains them all
		for _, text := range []string{"one", "two", "three"} {
			w.ann.Says(w.private, text)
		}
		w.proxy.Up(t)
		w.waitState("a second try", func(s channel.State) bool { return s.Adapter >= 3 && strings.Contains(s.LastError, "disk is full") })
		w.failWith(nil)
		w.waitTexts("one, two, three")
		w.reconnect()
		w.ann.Says(w.private, "four")
		w.waitTexts("one, two, three, four")
	})
}

// TestAGapIsBackfilled posts more messages in two rooms than a response contains.
func TestAGapIsBackfilled(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		const n = 130
		w := newFixture(t, url)
		bob := matrixtest.NewPerson(t, url, "bob", "Bob")
		group := w.newGroup(bob)
		w.start().waitConnected()
		w.ann.Says(w.private, "begin")
		w.waitTexts("begin")
		w.proxy.Down()
		for i := range n {
			w.ann.Says(w.private, fmt.Sprintf("a%d", i))
			bob.Says(group, fmt.Sprintf("b%d", i))
			if i%10 == 0 {
				w.bot.Says(w.private, "its own")
			}
		}
		w.proxy.Up(t)
		matrixtest.WaitFor(t, "all of it", func() bool { return len(w.recorded()) >= 2*n+1 })
		next := map[string]int{}
		for _, e := range w.recorded()[1:] {
			sign := e.Text[:1]
			if want := fmt.Sprintf("%s%d", sign, next[sign]); e.Text != want {
				t.Fatalf("got %s, want %s", e.Text, want)
			}
			next[sign]++
		}
		if next["a"] != n || next["b"] != n || len(w.recorded()) != 2*n+1 {
			t.Errorf("of %d each, got %v", n, next)
		}
	})
}

func TestATooLargeGapIsReportedAndItsEndRead(t *testing.T) {
	t.Parallel()
	const n = 1200
	w := newFixture(t, matrixtest.Start(t).URL)
	w.start().waitConnected()
	w.ann.Says(w.private, "begin")
	w.waitTexts("begin")
	w.proxy.Down()
	for i := range n {
		w.ann.Says(w.private, fmt.Sprint(i))
	}
	w.proxy.Up(t)
	matrixtest.WaitFor(t, "the last one", func() bool { return strings.HasSuffix(w.texts(), fmt.Sprint(n-1)) })
	if all := w.recorded(); len(all) < 1000 || len(all) > 1100 || !strings.Contains(w.logs.String(), "room "+w.private+" has more new events") {
		t.Errorf("got %d of %d", len(w.recorded()), n)
	}
	if s := w.runner.State(); !strings.Contains(s.LastError, "older ones are skipped") {
		t.Errorf("the state says %q", s.LastError)
	}
}

// TestAnInvitedBotReadsMessagesSinceTheInvitation checks that older messages are ignored.
func TestAnInvitedBotReadsMessagesSinceTheInvitation(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		bob := matrixtest.NewPerson(t, url, "bob", "Bob")
		old := bob.NewRoom(false)
		bob.Says(old, "before")
		open := bob.CreateRoom(map[string]any{"preset": "public_chat"})
		bob.Says(open, "before too")
		w.failWith(func(e chat.Event) error {
			if e.Kind == chat.EventInvited && e.User.ID == bob.ID {
				return e.Accept(t.Context())
			}
			return nil
		})
		w.start().waitConnected()
		bob.ChangeMember("invite", old, w.bot)
		bob.Says(old, "hello?")
		matrixtest.WaitFor(t, "the bot there", func() bool { return bob.IsIn(old, w.bot) })
		bob.Says(old, "there you are")
		matrixtest.WaitFor(t, "both", func() bool { return strings.HasSuffix(w.texts(), "there you are") })
		w.bot.Joins(open)
		bob.Says(open, "by itself")
		matrixtest.WaitFor(t, "that", func() bool { return strings.HasSuffix(w.texts(), "by itself") })
		if got := strings.TrimLeft(w.texts(), ", "); got != "hello?, there you are, by itself" {
			t.Errorf("got %q", got)
		}
		var invited []chat.Event
		for _, e := range w.recorded() {
			if e.Kind == chat.EventInvited {
				invited = append(invited, e)
			}
		}
		if len(invited) != 1 || !invited[0].Room.Group || invited[0].Room.Chat != old {
			t.Errorf("the invitations are %+v", invited)
		}
	})
}

func TestAnExpiredInvitationIsReported(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		bob := matrixtest.NewPerson(t, url, "bob", "Bob")
		w.start().waitConnected()
		room := bob.NewRoom(true, w.bot)
		matrixtest.WaitFor(t, "the invitation", func() bool { return len(w.recorded()) == 1 })
		e := w.recorded()[0]
		if e.Kind != chat.EventInvited || e.Room != (chat.Room{Chat: room}) || e.User != (chat.User{ID: bob.ID, Name: "bob"}) {
			t.Errorf("the invitation is %+v", e)
		}
		bob.ChangeMember("ban", room, w.bot)
		if err := e.Accept(t.Context()); err != nil || !strings.Contains(w.runner.State().LastError, "join room") {
			t.Errorf("expired invitation: %v; %s", err, w.runner.State().LastError)
		}
	})
}

// TestAnUnknownPositionRestartsTheSync checks that events delivered twice have the same key.
func TestAnUnknownPositionRestartsTheSync(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		for name, position := range map[string]string{
			"no place of the homeserver's": `{"since":"garbage"}`,
			"one that is far ahead":        `{"since":"s999999_0_0_0_0_0_0_0_0","room":"%s","event":"$nothing:test.example"}`,
			"what is no position":          "{",
		} {
			w := newFixtureNamed(t, url, strings.Fields(name)[0]+strings.Fields(name)[2])
			w.start().waitConnected()
			w.ann.Says(w.private, "one")
			w.waitTexts("one")
			w.bot.Says(w.private, "its own")
			w.setPosition(strings.ReplaceAll(position, "%s", w.private))
			w.reconnect()
			w.ann.Says(w.private, "two")
			matrixtest.WaitFor(t, "the new message", func() bool { return strings.HasSuffix(w.texts(), "two") })
			e := w.recorded()
			if got := w.texts(); got != "one, one, two" || e[0].Key != e[1].Key {
				t.Errorf("%s: got %q", name, got)
			}
		}
	})
}

func TestARestoredHomeserverIsDetected(t *testing.T) {
	t.Parallel()
	h := matrixtest.Start(t)
	w := newFixture(t, h.URL)
	w.start().waitConnected()
	w.ann.Says(w.private, "one")
	w.ann.Says(w.private, "two")
	w.waitTexts("one, two")
	w.proxy.Down()
	w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	h.Rollback(w.private, 1)
	w.proxy.Up(t)
	w.waitConnected()
	w.ann.Says(w.private, "three")
	matrixtest.WaitFor(t, "the new message", func() bool { return strings.HasSuffix(w.texts(), "three") })
	if got := w.texts(); got != "one, two, one, three" && got != "one, two, three" {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(w.logs.String(), "does not know the last received event") {
		t.Error("nothing was logged")
	}
}

// TestMessagesBeforeTheBotsLastOneAreIgnored simulates a bot account that another program used
// before.
func TestMessagesBeforeTheBotsLastOneAreIgnored(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		w.ann.Says(w.private, "old")
		w.bot.Says(w.private, "an answer")
		w.ann.Says(w.private, "new")
		w.start().waitConnected()
		w.waitTexts("new")
	})
}

func TestPollsKeepAnIdleChannelConnected(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		w.start().waitConnected()
		began := w.runner.State().LastSuccess
		s := w.waitState("two polls more", func(s channel.State) bool { return s.LastSuccess.Sub(began).Milliseconds() > 1500 })
		if s.Condition != channel.ConditionConnected || s.Adapter != 1 {
			t.Errorf("the state is %+v", s)
		}
	})
}

func TestAnEncryptedRoomIsReported(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		w.start().waitConnected()
		w.ann.Sets(w.private, "m.room.encryption", map[string]any{"algorithm": "m.megolm.v1.aes-sha2"})
		for range 2 {
			w.ann.Sends(w.private, "m.room.encrypted", map[string]any{"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x", "session_id": "y"})
		}
		matrixtest.WaitFor(t, "both", func() bool { return len(w.recorded()) == 2 })
		e := w.recorded()
		if e[0].Kind != chat.EventUnreadable || e[0].Key != e[1].Key || !strings.Contains(e[0].Text, "encrypted") {
			t.Errorf("got %+v", e)
		}
	})
}
