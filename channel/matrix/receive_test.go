package matrix_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/matrix/matrixtest"
)

// newGroup creates a room with Ann, Bob and the bot.
func (w *world) newGroup(bob *matrixtest.Person) string {
	room := w.ann.NewRoom(false, w.bot, bob)
	w.bot.Joins(room)
	bob.Joins(room)
	return room
}

func TestMessagesEditsAndDeletionsArrive(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w, r := newRecorder(t, url, "")
		ann, private := w.ann, w.rooms[channeltest.Ann]
		r.Start().AwaitConnected()
		first := ann.Says(private, "héllo 👋")
		r.AwaitTexts("héllo 👋") // a message deleted before it is read would not arrive at all
		ann.Edits(private, first, "hello")
		ann.Deletes(private, first)
		ann.Says(private, "waves", map[string]any{"msgtype": "m.emote"})
		notes := ann.Uploads("notes.txt", "text/plain", []byte("one\ntwo"))
		ann.Says(private, "see", map[string]any{"msgtype": "m.file", "filename": "notes.txt", "url": notes,
			"info": map[string]any{"mimetype": "text/plain", "size": 7}})
		ann.Says(private, "p.jpg", map[string]any{"msgtype": "m.image", "url": notes, "info": map[string]any{"size": "7"}})
		ann.Says(private, "a program's", map[string]any{"msgtype": "m.notice"})
		ann.Says(private, "another's", map[string]any{"org.mailroom.key": "k"})
		ann.Sends(private, "m.room.message", map[string]any{"body": 7})
		ann.Sends(private, "m.reaction",
			map[string]any{"m.relates_to": map[string]any{"rel_type": "m.annotation", "event_id": first, "key": "👍"}})
		w.bot.Says(private, "its own, from elsewhere")
		root := ann.Says(private, "a thread")
		inThread := ann.Says(private, "in it", matrixtest.Thread(root))
		matrixtest.WaitFor(t, "that", func() bool { return strings.HasSuffix(r.Texts(), "in it") })
		ann.Edits(private, inThread, "in it still")
		matrixtest.WaitFor(t, "that", func() bool { return strings.HasSuffix(r.Texts(), "in it still") })
		ann.Deletes(private, inThread)
		ann.Says(private, "as older programs do",
			map[string]any{"m.relates_to": map[string]any{"rel_type": "io.element.thread", "event_id": root}})
		ann.Says(private, "the end")
		matrixtest.WaitFor(t, "all messages", func() bool { return strings.HasSuffix(r.Texts(), "the end") })

		said := func(topic string, e chat.Event) chat.Event {
			if e.Kind == "" {
				e.Kind = chat.EventMessage
			}
			e.Room, e.User, e.Addressed = chat.Room{Chat: private, Topic: topic}, chat.User{ID: ann.ID, Name: "Ann"},
				e.Kind != chat.EventDeleted
			return e
		}
		wantEvents(t, r,
			said("", chat.Event{Text: "héllo 👋"}),
			said("", chat.Event{Kind: chat.EventEdited, TargetID: first, Text: "hello"}),
			said("", chat.Event{Kind: chat.EventDeleted, TargetID: first}),
			said("", chat.Event{Text: "* Ann waves"}),
			said("",
				chat.Event{Text: "see", Files: []chat.File{{Name: "notes.txt", MimeType: "text/plain", Size: 7, URI: notes}}}),
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
		w, r := newRecorder(t, url, "")
		bob := matrixtest.NewPerson(t, url, "bob", "")
		group := w.newGroup(bob)
		sent, err := r.Start().AwaitConnected().Send(t.Context(), chat.Room{Chat: group, Group: true},
			chat.Message{Text: "Go on?"}, "key")
		if err != nil {
			t.Fatal(err)
		}
		to := "https://matrix.to/#/" + w.bot.ID
		for _, text := range []string{
			"just talking of the mail room", "what says @Mail Room to this?",
			"mail@mailroom is no name, nor is @mailroom:elsewhere.example",
			w.bot.ID + ": !status", "ask " + w.bot.ID + ".",
		} {
			bob.Says(group, text)
		}
		bob.Says(group, "Mail Room !stop", map[string]any{"format": "org.matrix.custom.html", "formatted_body": `<a href="` +
			to + `">Mail Room</a> !stop`})
		bob.Says(group, "[Mail Room]("+to+") go",
			map[string]any{"m.mentions": map[string]any{"user_ids": []string{w.bot.ID}}})
		bob.Says(group, "> <"+w.bot.ID+"> Go on?\n> Or not?\n\nyes", matrixtest.ReplyTo(sent))
		bob.Says(group, "no", matrixtest.ReplyTo(w.ann.Says(group, "who is there?")))
		asked := w.ann.Says(group, w.bot.ID+": hi") // and answers to it, which quote it, are not to the bot
		for _, listed := range []any{map[string]any{"user_ids": []string{w.ann.ID}},
			map[string]any{"user_ids": []string{w.ann.ID, w.bot.ID}}, map[string]any{}, nil} {
			fields := map[string]any{"format": "org.matrix.custom.html",
				"formatted_body": `<mx-reply><blockquote><a href="https://matrix.to/#/!r/$e">In reply to</a> ` +
					`<a href="https://matrix.to/#/` + w.ann.ID + `">ann</a><br><a href="` + to +
					`">bot</a>: hi</blockquote></mx-reply>good idea`}
			if listed != nil {
				fields["m.mentions"] = listed
			}
			bob.Says(group, "> <"+w.ann.ID+"> "+w.bot.ID+": hi\n\ngood idea", matrixtest.ReplyTo(asked), fields)
		}
		bob.Says(group, "> "+w.bot.ID+": hi\nno", map[string]any{"format": "org.matrix.custom.html",
			"formatted_body": `<blockquote><p><a href="` + to + `">bot</a>: hi</p></blockquote>no`})
		matrixtest.WaitFor(t, "all messages", func() bool { return len(r.Recorded()) == 16 })

		said := func(text string, addressed bool) chat.Event {
			return chat.Event{Kind: chat.EventMessage, Room: chat.Room{Chat: group, Group: true},
				User: chat.User{ID: bob.ID, Name: "bob"}, Text: text, Addressed: addressed}
		}
		ann := said("who is there?", false)
		ann.User = chat.User{ID: w.ann.ID, Name: "Ann"}
		answers := func(e chat.Event, of chat.User, text string) chat.Event {
			e.Context = []chat.Context{{Kind: chat.ContextReply, Author: of, ByBot: of.ID == w.bot.ID, Text: text}}
			return e
		}
		toAnn, toBot := ann.User, chat.User{ID: w.bot.ID, Name: "Mail Room"}
		good := answers(said("good idea", false), toAnn, w.bot.ID+": hi")
		hi := said("hi", true)
		hi.User = toAnn
		wantEvents(t, r,
			said("just talking of the mail room", false),
			said("what says @Mail Room to this?", true),
			said("mail@mailroom is no name, nor is @mailroom:elsewhere.example", false),
			said("!status", true),
			said("ask "+w.bot.ID+".", true),
			said("!stop", true),
			said("go", true),
			answers(said("yes", true), toBot, "Go on?"),
			ann,
			answers(said("no", false), toAnn, "who is there?"),
			hi,
			good, good, good, good,
			said("> "+w.bot.ID+": hi\nno", false),
		)
	})
}

// wantEvents compares the recorded events and checks that their keys are unique.
func wantEvents(t *testing.T, r *channeltest.Recorder, want ...chat.Event) {
	t.Helper()
	keys := map[string]bool{}
	for _, e := range r.Recorded() {
		keys[e.Key] = true
	}
	if len(keys) != len(want) {
		t.Errorf("%d keys of %d events", len(keys), len(want))
	}
	ignored := cmp.Options{
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Open" }, cmp.Ignore()),
		cmpopts.IgnoreFields(chat.Event{}, "Key", "Position", "Written", "Accept"),
	}
	if diff := cmp.Diff(want, r.Recorded(), ignored); diff != "" {
		t.Error(diff)
	}
}

func TestAFileIsFetchedWhenItIsOpened(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w, r := newRecorder(t, url, "")
		r.Start()
		uri := w.ann.Uploads("notes.txt", "text/plain", []byte("one\ntwo"))
		for _, at := range []string{uri, uri, "mxc://test.example/nothing", "mxc://x/../../y", "https://example.org/x"} {
			w.ann.Says(w.rooms[channeltest.Ann], "f", map[string]any{"msgtype": "m.file", "filename": "notes.txt", "url": at})
		}
		matrixtest.WaitFor(t, "all of them", func() bool { return len(r.Recorded()) >= 5 })
		if n := len(w.proxy.Calls("download")); n != 0 {
			t.Errorf("downloaded %d files before they were opened", n)
		}
		all := r.Recorded()
		w.proxy.Fail("download", matrixtest.Fault{}, matrixtest.Fault{Status: 404, Code: "M_UNRECOGNIZED",
			Message: "Unrecognized request"})
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
		if _, err := all[2].Files[0].Open(t.Context()); channeltest.SendClass(err) != mailroom.ClassPermanent {
			t.Errorf("missing file: %v", err)
		}
		if len(all[3].Files)+len(all[4].Files) != 0 {
			t.Errorf("invalid URIs were accepted: %+v %+v", all[3].Files, all[4].Files)
		}
	})
}

func TestATooLargeGapIsReportedAndItsEndRead(t *testing.T) {
	t.Parallel()
	const n = 1200
	w, r := newRecorder(t, matrixtest.Start(t).URL, "")
	r.Start().AwaitConnected()
	w.ann.Says(w.rooms[channeltest.Ann], "begin")
	r.AwaitTexts("begin")
	w.proxy.Down()
	for i := range n {
		w.ann.Says(w.rooms[channeltest.Ann], fmt.Sprint(i))
	}
	w.proxy.Up(t)
	matrixtest.WaitFor(t, "the last one", func() bool { return strings.HasSuffix(r.Texts(), fmt.Sprint(n-1)) })
	if all := r.Recorded(); len(all) < 1000 || len(all) > 1100 ||
		!strings.Contains(r.Log(), "room "+w.rooms[channeltest.Ann]+" has more new events") {
		t.Errorf("got %d of %d", len(r.Recorded()), n)
	}
	r.AwaitError("older ones are skipped")
}

// TestAnInvitedBotReadsMessagesSinceTheInvitation checks that older messages are ignored.
func TestAnInvitedBotReadsMessagesSinceTheInvitation(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w, r := newRecorder(t, url, "")
		bob := matrixtest.NewPerson(t, url, "bob", "Bob")
		old := bob.NewRoom(false)
		bob.Says(old, "before")
		open := bob.CreateRoom(map[string]any{"preset": "public_chat"})
		bob.Says(open, "before too")
		r.FailWith(func(e chat.Event) error {
			if e.Kind == chat.EventInvited && e.User.ID == bob.ID {
				return e.Accept(t.Context())
			}
			return nil
		})
		r.Start().AwaitConnected()
		bob.ChangeMember("invite", old, w.bot)
		bob.Says(old, "hello?")
		matrixtest.WaitFor(t, "the bot there", func() bool { return bob.IsIn(old, w.bot) })
		bob.Says(old, "there you are")
		matrixtest.WaitFor(t, "both", func() bool { return strings.HasSuffix(r.Texts(), "there you are") })
		w.bot.Joins(open)
		bob.Says(open, "by itself")
		matrixtest.WaitFor(t, "that", func() bool { return strings.HasSuffix(r.Texts(), "by itself") })
		if got := strings.TrimLeft(r.Texts(), ", "); got != "hello?, there you are, by itself" {
			t.Errorf("got %q", got)
		}
		var invited []chat.Event
		for _, e := range r.Recorded() {
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
		w, r := newRecorder(t, url, "")
		bob := matrixtest.NewPerson(t, url, "bob", "Bob")
		r.Start().AwaitConnected()
		room := bob.NewRoom(true, w.bot)
		matrixtest.WaitFor(t, "the invitation", func() bool { return len(r.Recorded()) >= 1 })
		e := r.Recorded()[0]
		if e.Kind != chat.EventInvited || e.Room != (chat.Room{Chat: room}) ||
			e.User != (chat.User{ID: bob.ID, Name: "bob"}) {
			t.Errorf("the invitation is %+v", e)
		}
		bob.ChangeMember("ban", room, w.bot)
		if err := e.Accept(t.Context()); err != nil {
			t.Errorf("expired invitation: %v", err)
		}
		r.AwaitError("join room")
	})
}

// TestAnUnknownPositionRestartsTheSync checks that events delivered twice have the same key.
func TestAnUnknownPositionRestartsTheSync(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		for name, position := range map[string]string{
			"no place of the homeserver's": `{"since":"garbage"}`,
			"a position far ahead":         `{"since":"s999999_0_0_0_0_0_0_0_0","room":"%s","event":"$nothing:test.example"}`,
			"an invalid position":          "{",
		} {
			w, r := newRecorder(t, url, strings.Fields(name)[0]+strings.Fields(name)[2])
			r.Start().AwaitConnected()
			w.ann.Says(w.rooms[channeltest.Ann], "one")
			r.AwaitTexts("one")
			w.bot.Says(w.rooms[channeltest.Ann], "its own")
			r.SetPosition(strings.ReplaceAll(position, "%s", w.rooms[channeltest.Ann]))
			r.Reconnect()
			w.ann.Says(w.rooms[channeltest.Ann], "two")
			matrixtest.WaitFor(t, "the new message", func() bool { return strings.HasSuffix(r.Texts(), "two") })
			e := r.Recorded()
			if got := r.Texts(); got != "one, two" || len(e) != 3 || e[0].Key != e[1].Key {
				t.Errorf("%s: got %q", name, got)
			}
		}
	})
}

func TestARestoredHomeserverIsDetected(t *testing.T) {
	t.Parallel()
	h := matrixtest.Start(t)
	w, r := newRecorder(t, h.URL, "")
	r.Start().AwaitConnected()
	w.ann.Says(w.rooms[channeltest.Ann], "one")
	w.ann.Says(w.rooms[channeltest.Ann], "two")
	r.AwaitTexts("one, two")
	w.proxy.Down()
	r.AwaitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	h.Rollback(w.rooms[channeltest.Ann], 1)
	w.proxy.Up(t)
	r.AwaitConnected()
	w.ann.Says(w.rooms[channeltest.Ann], "three")
	matrixtest.WaitFor(t, "the new message", func() bool { return strings.HasSuffix(r.Texts(), "three") })
	if got := r.Texts(); got != "one, two, one, three" && got != "one, two, three" {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(r.Log(), "does not know the last received event") {
		t.Error("the log lacks the lost position")
	}
}

// TestMessagesBeforeTheBotsLastOneAreIgnored simulates a bot account that another program used
// before.
func TestMessagesBeforeTheBotsLastOneAreIgnored(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w, r := newRecorder(t, url, "")
		w.ann.Says(w.rooms[channeltest.Ann], "old")
		w.bot.Says(w.rooms[channeltest.Ann], "an answer")
		w.ann.Says(w.rooms[channeltest.Ann], "new")
		r.Start().AwaitConnected()
		r.AwaitTexts("new")
	})
}

func TestAnEncryptedRoomIsReported(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w, r := newRecorder(t, url, "")
		r.Start().AwaitConnected()
		w.ann.Sets(w.rooms[channeltest.Ann], "m.room.encryption", map[string]any{"algorithm": "m.megolm.v1.aes-sha2"})
		for range 2 {
			w.ann.Sends(w.rooms[channeltest.Ann], "m.room.encrypted",
				map[string]any{"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x", "session_id": "y"})
		}
		matrixtest.WaitFor(t, "both", func() bool { return len(r.Recorded()) >= 2 })
		e := r.Recorded()
		if e[0].Kind != chat.EventUnreadable || e[0].Key != e[1].Key || !strings.Contains(e[0].Text, "encrypted") {
			t.Errorf("got %+v", e)
		}
	})
}
