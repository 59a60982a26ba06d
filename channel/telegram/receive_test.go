package telegram_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/telegram/telegramtest"
)

func TestPlatformEventsBecomeChatEvents(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	w := newFixture(t, tg)
	ann := tg.Person("Ann")
	private, group, news := ann.Private(), tg.Group("team"), tg.Chat(-1009999, "channel", "news")
	w.start()
	p := w.waitConnected()
	sent, err := p.Send(t.Context(), room(group), chat.Message{Text: "Go on?", Buttons: []chat.Button{{Label: "Yes", Data: "yes:1"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	topic := group.Topic()
	first := ann.Sends(private, "héllo 👋")
	ann.Edits(private, first, "hello")
	ann.Sends(private, "see", telegramtest.MessageOptions{File: "notes.txt", Content: []byte("one\ntwo")})
	ann.Sends(private, "", telegramtest.MessageOptions{File: "p", Content: []byte("jpeg"), Photo: true})
	ann.Sends(group, "just talking")
	ann.Sends(group, "👋👋 what says @Mailroom_Bot to this?")
	ann.Sends(group, "/status@mailroom_bot now")
	ann.Sends(group, "/stop")
	ann.Sends(group, "/stop@other_bot")
	ann.Sends(group, "mail@mailroom_bot is no name")
	ann.Sends(group, "yes", telegramtest.MessageOptions{ReplyTo: messageNumber(sent)})
	ann.Sends(group, "in a topic", telegramtest.MessageOptions{Topic: topic})
	ann.Sends(news, "a post")
	ann.Presses(group, messageNumber(sent), "Yes")
	waitFor(t, "all that was said", func() bool { return len(w.recorded()) == 13 })

	user := chat.User{ID: fmt.Sprint(ann.ID), Name: "Ann"}
	inPrivate, inGroup := room(private), room(group)
	inTopic := inGroup
	inTopic.Topic = fmt.Sprint(topic)
	said := func(e chat.Event) chat.Event {
		if e.Kind == "" {
			e.Kind = chat.EventMessage
		}
		if e.Room.Chat == "" {
			e.Room = inGroup
		}
		e.User = user
		return e
	}
	want := []chat.Event{
		said(chat.Event{Room: inPrivate, Text: "héllo 👋", Addressed: true}),
		said(chat.Event{Room: inPrivate, Kind: chat.EventEdited, TargetID: fmt.Sprintf("%d:%d", private.ID, first), Text: "hello", Addressed: true}),
		said(chat.Event{Room: inPrivate, Text: "see", Addressed: true, Files: []chat.File{{Name: "notes.txt", MimeType: "text/plain", Size: 7, URI: "telegram:file/BQACAgIAAx000001"}}}),
		said(chat.Event{Room: inPrivate, Addressed: true, Files: []chat.File{{Name: "photo.jpg", MimeType: "image/jpeg", Size: 4, URI: "telegram:file/BQACAgIAAx000002"}}}),
		said(chat.Event{Text: "just talking"}),
		said(chat.Event{Text: "👋👋 what says @Mailroom_Bot to this?", Addressed: true}),
		said(chat.Event{Text: "/status now", Addressed: true}),
		said(chat.Event{Text: "/stop"}), // the bot overhears what is said there
		said(chat.Event{Text: "/stop@other_bot"}),
		said(chat.Event{Text: "mail@mailroom_bot is no name"}),
		said(chat.Event{Text: "yes", Addressed: true}),
		said(chat.Event{Room: inTopic, Text: "in a topic"}),
		said(chat.Event{Kind: chat.EventButton, TargetID: sent, Data: "yes:1", Addressed: true}),
	}
	got := w.recorded()
	opened := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Open" }, cmp.Ignore())
	if diff := cmp.Diff(want, got, opened, cmpopts.IgnoreFields(chat.Event{}, "Key", "Position")); diff != "" {
		t.Error(diff)
	}
	keys := map[string]bool{}
	for _, e := range got {
		keys[e.Key] = true
	}
	if len(keys) != len(got) || got[0].Key != got[1].TargetID {
		t.Errorf("the keys of %d events: %v", len(got), keys)
	}
}

func TestFilesAreDownloadedWhenOpened(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newFixture(t, tg).start()
	ann.Sends(ann.Private(), "", telegramtest.MessageOptions{File: "notes.txt", Content: []byte("one\ntwo")})
	ann.Sends(ann.Private(), "", telegramtest.MessageOptions{File: "film.mp4", Content: make([]byte, 20<<20+1)})
	waitFor(t, "both files", func() bool { return len(w.recorded()) == 2 })
	if n := len(tg.Calls("getFile")); n != 0 {
		t.Errorf("asked for %d files that nobody has opened", n)
	}
	r, err := w.recorded()[0].Files[0].Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if string(content) != "one\ntwo" || err != nil || r.Close() != nil {
		t.Errorf("the file has %q, %v", content, err)
	}
	if _, err := w.recorded()[1].Files[0].Open(t.Context()); sendClass(err) != mailroom.ClassPermanent || !strings.Contains(err.Error(), "too big") {
		t.Errorf("a file that is too large: %v", err)
	}
}

func TestButtonPressIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newFixture(t, tg).start()
	p := w.waitConnected()
	id, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "Go on?", Buttons: []chat.Button{{Label: "Yes", Data: "y"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	tap := ann.Presses(ann.Private(), messageNumber(id), "Yes")
	waitFor(t, "the tap", func() bool { return len(w.recorded()) == 1 })
	if err := p.AckButton(t.Context(), w.recorded()[0], strings.Repeat("é", 300)); err != nil {
		t.Fatal(err)
	}
	if words, times := tap.Answer(tg); times != 1 || len([]rune(words)) != 200 {
		t.Errorf("who tapped is told %q, %d times", words, times)
	}
	tap.Expire(tg)
	if err := p.AckButton(t.Context(), w.recorded()[0], "late"); err != nil {
		t.Errorf("an answer that comes too late fails: %v", err)
	}
}

func TestBareCommandIsNotForAnAdminBot(t *testing.T) {
	tg := telegramtest.New(t)
	w := newFixture(t, tg).start()
	ann, member, admin := tg.Person("Ann"), tg.Group("member"), tg.Group("admin")
	admin.MakeAdmin()
	for range 2 { // it is asked once
		ann.Sends(member, "/stop")
		ann.Sends(admin, "/stop")
		ann.Sends(admin, "/stop@Mailroom_bot")
	}
	tg.WaitFor(t, "all of them", func() bool { return len(w.recorded()) == 6 })
	var got []bool
	for _, e := range w.recorded() {
		got = append(got, e.Addressed)
	}
	if diff := cmp.Diff([]bool{true, false, true, true, false, true}, got); diff != "" {
		t.Errorf("addressed (-want +got):\n%s", diff)
	}
	if n := len(tg.Calls("getChatMember")); n != 2 {
		t.Errorf("it is asked %d times what the bot is", n)
	}
}

func TestBareCommandIsNotForABotThatReadsAll(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	tg.SetReadsAll(true)
	ann, group := tg.Person("Ann"), tg.Group("team")
	ann.Sends(group, "/stop")
	ann.Sends(group, "/stop@Mailroom_bot")
	w := newFixture(t, tg).start()
	waitFor(t, "both", func() bool { return len(w.recorded()) == 2 })
	if got := w.recorded(); got[0].Addressed || !got[1].Addressed {
		t.Errorf("addressed are %t and %t", got[0].Addressed, got[1].Addressed)
	}
}

// TestBareCommandIsNotForABotThatBypassesPrivacyMode: privacy mode that was turned on changes
// nothing in a group until the bot is added there again.
func TestBareCommandIsNotForABotThatBypassesPrivacyMode(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann, talk, quiet := tg.Person("Ann"), tg.Group("talk"), tg.Group("quiet")
	ann.Sends(talk, "just talking")
	for _, group := range []*telegramtest.Chat{talk, quiet} {
		ann.Sends(group, "/stop")
		ann.Sends(group, "/stop@Mailroom_bot")
	}
	w := newFixture(t, tg).start()
	waitFor(t, "all of them", func() bool { return len(w.recorded()) == 5 })
	var got []bool
	for _, e := range w.recorded()[1:] {
		got = append(got, e.Addressed)
	}
	if diff := cmp.Diff([]bool{false, true, true, true}, got); diff != "" {
		t.Errorf("addressed (-want +got):\n%s", diff)
	}
	if w.capabilities.GroupPerMinute != 20 {
		t.Errorf("a group takes %d messages a minute", w.capabilities.GroupPerMinute)
	}
}

func TestUpdateIsConfirmedOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newFixture(t, tg)
	w.failWith(errors.New("the disk is full"))
	ann.Sends(ann.Private(), "one")
	ann.Sends(ann.Private(), "two")
	w.start()
	w.waitState("a second try", func(s channel.State) bool { return s.Adapter >= 3 && strings.Contains(s.Reason, "disk is full") })
	if n := tg.Pending(); n != 2 {
		t.Fatalf("%d updates are left of 2 that nobody took", n)
	}
	for _, c := range tg.Calls("getUpdates") {
		if c.Params["offset"] != nil {
			t.Fatalf("offset %v confirms what was not taken", c.Params["offset"])
		}
	}
	w.failWith(nil)
	tg.WaitFor(t, "both confirmed", func() bool { return tg.Pending() == 0 })
	if got := w.texts(); got != "one, two" {
		t.Errorf("taken was %q", got)
	}
}

func TestRestartedUpdateNumberingSkipsNothing(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newFixture(t, tg).start()
	w.waitConnected()
	ann.Sends(ann.Private(), "before")
	tg.WaitFor(t, "the first confirmed", func() bool { return tg.Pending() == 0 })
	// The poll that confirmed it has an offset; a week would be over it by far.
	polls := len(tg.Calls("getUpdates"))
	tg.WaitFor(t, "the next poll", func() bool { return len(tg.Calls("getUpdates")) > polls })
	tg.SetNextUpdateID(17)
	ann.Sends(ann.Private(), "after")
	ann.Sends(ann.Private(), "and on")
	tg.WaitFor(t, "the others confirmed", func() bool { return tg.Pending() == 0 })
	if got := w.texts(); got != "before, after, and on" {
		t.Errorf("taken was %q", got)
	}
}

func TestRedeliveredUpdateHasTheSameKey(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newFixture(t, tg).start()
	first := ann.Sends(ann.Private(), "once")
	tg.WaitFor(t, "it confirmed", func() bool { return tg.Pending() == 0 })
	tg.Redeliver()
	waitFor(t, "it again", func() bool { return len(w.recorded()) == 2 })
	ann.Edits(ann.Private(), first, "twice")
	waitFor(t, "the edit", func() bool { return len(w.recorded()) == 3 })
	tg.WaitFor(t, "it confirmed", func() bool { return tg.Pending() == 0 })
	tg.Redeliver()
	waitFor(t, "the edit again", func() bool { return len(w.recorded()) == 4 })
	e := w.recorded()
	if e[0].Key != e[1].Key || e[2].Key != e[3].Key || e[0].Key == e[2].Key {
		t.Errorf("keys %q %q %q %q", e[0].Key, e[1].Key, e[2].Key, e[3].Key)
	}
}

func TestUnreadableUpdateIsSkipped(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newFixture(t, tg)
	tg.Fail("getUpdates", telegramtest.Fault{Raw: `{"ok":true,"result":[{"update_id":3,"message":{"message_id":"x"}},{"update_id":4,"poll":{"id":"1"}},{"update_id":5,"message":{"message_id":9,"chat":{"id":1,"type":"private"}}}]}`})
	w.start()
	tg.WaitFor(t, "them confirmed", func() bool {
		calls := tg.Calls("getUpdates")
		return len(calls) > 0 && calls[len(calls)-1].Params["offset"] == 6.0
	})
	ann.Sends(ann.Private(), "good")
	waitFor(t, "what is good", func() bool { return len(w.recorded()) > 0 })
	if got := w.texts(); got != "good" || !strings.Contains(w.logs.String(), "update=3") {
		t.Errorf("taken was %q", got)
	}
}

func TestGroupMigrationIsLoggedAndFollowed(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	old, is := tg.Chat(-77, "group", "team"), tg.Group("team")
	w := newFixture(t, tg).start()
	p := w.waitConnected()
	old.MigrateTo(ann, is)
	tg.WaitFor(t, "it confirmed", func() bool { return tg.Pending() == 0 })
	if len(w.recorded()) != 0 || !strings.Contains(w.logs.String(), "was=-77") {
		t.Errorf("%d events of it", len(w.recorded()))
	}
	for range 2 {
		id, err := p.Send(t.Context(), room(old), chat.Message{Text: "hello"}, "")
		if want := fmt.Sprint(is.ID); err != nil || !strings.HasPrefix(id, want+":") {
			t.Errorf("sent as %q, %v, want it in %s", id, err, want)
		}
	}
	if n := len(tg.Calls("sendMessage")); n != 3 || len(is.Texts()) != 2 {
		t.Errorf("%d calls for 2 messages, the first of which was sent on", n)
	}
}

func TestIdlePollsProveTheConnection(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	w := newFixture(t, tg).start()
	w.waitConnected()
	began := w.runner.State().LastSuccess
	s := w.waitState("two polls more", func(s channel.State) bool { return s.LastSuccess.Sub(began) > 1500*time.Millisecond })
	if s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("the state is %+v", s)
	}
	for _, c := range tg.Calls("getUpdates")[1:] {
		if c.Params["timeout"] != 1.0 || c.Params["offset"] != nil {
			t.Errorf("a poll asked %v", c.Params)
		}
	}
}
