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
	fx := newFixture(t, tg)
	ann := tg.Person("Ann")
	private, group, news := ann.Private(), tg.Group("team"), tg.Chat(-1009999, "channel", "news")
	fx.start()
	p := fx.waitConnected()
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
	waitFor(t, "all events", func() bool { return len(fx.recorded()) == 13 })

	user := chat.User{ID: fmt.Sprint(ann.ID), Name: "Ann"}
	inPrivate, inGroup := room(private), room(group)
	inTopic := inGroup
	inTopic.Topic = fmt.Sprint(topic)
	event := func(e chat.Event) chat.Event {
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
		event(chat.Event{Room: inPrivate, Text: "héllo 👋", Addressed: true}),
		event(chat.Event{Room: inPrivate, Kind: chat.EventEdited, TargetID: fmt.Sprintf("%d:%s", private.ID, first), Text: "hello", Addressed: true}),
		event(chat.Event{Room: inPrivate, Text: "see", Addressed: true, Files: []chat.File{{Name: "notes.txt", MimeType: "text/plain", Size: 7, URI: "telegram:file/BQACAgIAAx000001"}}}),
		event(chat.Event{Room: inPrivate, Addressed: true, Files: []chat.File{{Name: "photo.jpg", MimeType: "image/jpeg", Size: 4, URI: "telegram:file/BQACAgIAAx000002"}}}),
		event(chat.Event{Text: "just talking"}),
		event(chat.Event{Text: "👋👋 what says @Mailroom_Bot to this?", Addressed: true}),
		event(chat.Event{Text: "/status now", Addressed: true}),
		event(chat.Event{Text: "/stop"}), // the earlier message shows that the bot gets all messages
		event(chat.Event{Text: "/stop@other_bot"}),
		event(chat.Event{Text: "mail@mailroom_bot is no name"}),
		event(chat.Event{Text: "yes", Addressed: true}),
		event(chat.Event{Room: inTopic, Text: "in a topic"}),
		event(chat.Event{Kind: chat.EventButton, TargetID: sent, Data: "yes:1", Addressed: true}),
	}
	got := fx.recorded()
	opened := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Open" }, cmp.Ignore())
	if diff := cmp.Diff(want, got, opened, cmpopts.IgnoreFields(chat.Event{}, "Key", "Position")); diff != "" {
		t.Error(diff)
	}
	keys := map[string]bool{}
	for _, e := range got {
		keys[e.Key] = true
	}
	if len(keys) != len(got) || got[0].Key != got[1].TargetID {
		t.Errorf("keys of %d events: %v", len(got), keys)
	}
}

func TestFilesAreDownloadedWhenOpened(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newFixture(t, tg).start()
	ann.Sends(ann.Private(), "", telegramtest.MessageOptions{File: "notes.txt", Content: []byte("one\ntwo")})
	ann.Sends(ann.Private(), "", telegramtest.MessageOptions{File: "film.mp4", Content: make([]byte, 20<<20+1)})
	waitFor(t, "both files", func() bool { return len(fx.recorded()) == 2 })
	if n := len(tg.Calls("getFile")); n != 0 {
		t.Errorf("%d getFile calls before a file was opened", n)
	}
	r, err := fx.recorded()[0].Files[0].Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if string(content) != "one\ntwo" || err != nil || r.Close() != nil {
		t.Errorf("content %q, %v", content, err)
	}
	if _, err := fx.recorded()[1].Files[0].Open(t.Context()); sendClass(err) != mailroom.ClassPermanent || !strings.Contains(err.Error(), "too big") {
		t.Errorf("a file over the limit: %v", err)
	}
}

func TestButtonPressIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newFixture(t, tg).start()
	p := fx.waitConnected()
	id, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "Go on?", Buttons: []chat.Button{{Label: "Yes", Data: "y"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	press := ann.Presses(ann.Private(), messageNumber(id), "Yes")
	waitFor(t, "the press", func() bool { return len(fx.recorded()) == 1 })
	if err := p.AckButton(t.Context(), fx.recorded()[0], strings.Repeat("é", 300)); err != nil {
		t.Fatal(err)
	}
	if answers := press.Answers(); len(answers) != 1 || len([]rune(answers[0])) != 200 {
		t.Errorf("the press is answered %q", answers)
	}
	press.Expire()
	if err := p.AckButton(t.Context(), fx.recorded()[0], "late"); err != nil {
		t.Errorf("a late answer fails: %v", err)
	}
}

func TestBareCommandIsNotForAnAdminBot(t *testing.T) {
	tg := telegramtest.New(t)
	fx := newFixture(t, tg).start()
	ann, member, admin := tg.Person("Ann"), tg.Group("member"), tg.Group("admin")
	admin.MakeAdmin()
	for range 2 { // the second time from the cache
		ann.Sends(member, "/stop")
		ann.Sends(admin, "/stop")
		ann.Sends(admin, "/stop@Mailroom_bot")
	}
	tg.WaitFor(t, "all events", func() bool { return len(fx.recorded()) == 6 })
	var got []bool
	for _, e := range fx.recorded() {
		got = append(got, e.Addressed)
	}
	if diff := cmp.Diff([]bool{true, false, true, true, false, true}, got); diff != "" {
		t.Errorf("addressed (-want +got):\n%s", diff)
	}
	if n := len(tg.Calls("getChatMember")); n != 2 {
		t.Errorf("%d lookups of the bot's role", n)
	}
}

func TestBareCommandIsNotForABotThatReadsAll(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	tg.SetReadsAll(true)
	ann, group := tg.Person("Ann"), tg.Group("team")
	ann.Sends(group, "/stop")
	ann.Sends(group, "/stop@Mailroom_bot")
	fx := newFixture(t, tg).start()
	waitFor(t, "both", func() bool { return len(fx.recorded()) == 2 })
	if got := fx.recorded(); got[0].Addressed || !got[1].Addressed {
		t.Errorf("addressed: %t and %t", got[0].Addressed, got[1].Addressed)
	}
}

// TestBareCommandIsNotForABotThatBypassesPrivacyMode checks that getMe is not relied on: a
// changed privacy mode takes effect in a group only when the bot is added there again.
func TestBareCommandIsNotForABotThatBypassesPrivacyMode(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann, talk, quiet := tg.Person("Ann"), tg.Group("talk"), tg.Group("quiet")
	ann.Sends(talk, "just talking")
	for _, group := range []*telegramtest.Chat{talk, quiet} {
		ann.Sends(group, "/stop")
		ann.Sends(group, "/stop@Mailroom_bot")
	}
	fx := newFixture(t, tg).start()
	waitFor(t, "all events", func() bool { return len(fx.recorded()) == 5 })
	var got []bool
	for _, e := range fx.recorded()[1:] {
		got = append(got, e.Addressed)
	}
	if diff := cmp.Diff([]bool{false, true, true, true}, got); diff != "" {
		t.Errorf("addressed (-want +got):\n%s", diff)
	}
	if fx.capabilities.GroupPerMinute != 20 {
		t.Errorf("GroupPerMinute is %d", fx.capabilities.GroupPerMinute)
	}
}

func TestUpdateIsConfirmedOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newFixture(t, tg)
	fx.failWith(errors.New("the disk is full"))
	ann.Sends(ann.Private(), "one")
	ann.Sends(ann.Private(), "two")
	fx.start()
	fx.waitState("a second attempt", func(s channel.State) bool { return s.Adapter >= 3 && strings.Contains(s.Reason, "disk is full") })
	if n := tg.Pending(); n != 2 {
		t.Fatalf("%d unconfirmed updates, want 2 after failed commits", n)
	}
	for _, c := range tg.Calls("getUpdates") {
		if c.Params["offset"] != nil {
			t.Fatalf("offset %v confirms uncommitted updates", c.Params["offset"])
		}
	}
	fx.failWith(nil)
	tg.WaitFor(t, "the confirmation of both", func() bool { return tg.Pending() == 0 })
	if got := fx.texts(); got != "one, two" {
		t.Errorf("recorded %q", got)
	}
}

func TestRestartedUpdateNumberingSkipsNothing(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newFixture(t, tg).start()
	fx.waitConnected()
	ann.Sends(ann.Private(), "before")
	tg.WaitFor(t, "the confirmation of the first", func() bool { return tg.Pending() == 0 })
	// Wait for the next poll: the confirming one still has an offset with the old numbering.
	polls := len(tg.Calls("getUpdates"))
	tg.WaitFor(t, "the next poll", func() bool { return len(tg.Calls("getUpdates")) > polls })
	tg.SetNextUpdateID(17)
	ann.Sends(ann.Private(), "after")
	ann.Sends(ann.Private(), "and on")
	tg.WaitFor(t, "the confirmation of the others", func() bool { return tg.Pending() == 0 })
	if got := fx.texts(); got != "before, after, and on" {
		t.Errorf("recorded %q", got)
	}
}

func TestRedeliveredUpdateHasTheSameKey(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newFixture(t, tg).start()
	first := ann.Sends(ann.Private(), "once")
	tg.WaitFor(t, "the confirmation", func() bool { return tg.Pending() == 0 })
	tg.Redeliver()
	waitFor(t, "the redelivered event", func() bool { return len(fx.recorded()) == 2 })
	ann.Edits(ann.Private(), first, "twice")
	waitFor(t, "the edit", func() bool { return len(fx.recorded()) == 3 })
	tg.WaitFor(t, "the confirmation", func() bool { return tg.Pending() == 0 })
	tg.Redeliver()
	waitFor(t, "the redelivered edit", func() bool { return len(fx.recorded()) == 4 })
	e := fx.recorded()
	if e[0].Key != e[1].Key || e[2].Key != e[3].Key || e[0].Key == e[2].Key {
		t.Errorf("keys %q %q %q %q", e[0].Key, e[1].Key, e[2].Key, e[3].Key)
	}
}

func TestUnreadableUpdateIsSkipped(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newFixture(t, tg)
	tg.Fail("getUpdates", telegramtest.Fault{Raw: `{"ok":true,"result":[{"update_id":3,"message":{"message_id":"x"}},{"update_id":4,"poll":{"id":"1"}},{"update_id":5,"message":{"message_id":9,"chat":{"id":1,"type":"private"}}}]}`})
	fx.start()
	tg.WaitFor(t, "the confirmation", func() bool {
		calls := tg.Calls("getUpdates")
		return len(calls) > 0 && calls[len(calls)-1].Params["offset"] == 6.0
	})
	ann.Sends(ann.Private(), "good")
	waitFor(t, "the readable update", func() bool { return len(fx.recorded()) > 0 })
	if got := fx.texts(); got != "good" || !strings.Contains(fx.logs.String(), "update=3") {
		t.Errorf("recorded %q", got)
	}
}

func TestGroupMigrationIsLoggedAndFollowed(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	old, is := tg.Chat(-77, "group", "team"), tg.Group("team")
	fx := newFixture(t, tg).start()
	p := fx.waitConnected()
	old.MigrateTo(ann, is)
	tg.WaitFor(t, "the confirmation", func() bool { return tg.Pending() == 0 })
	if len(fx.recorded()) != 0 || !strings.Contains(fx.logs.String(), "was=-77") {
		t.Errorf("%d events for the migration", len(fx.recorded()))
	}
	for range 2 {
		id, err := p.Send(t.Context(), room(old), chat.Message{Text: "hello"}, "")
		if want := fmt.Sprint(is.ID); err != nil || !strings.HasPrefix(id, want+":") {
			t.Errorf("sent as %q, %v, want it in %s", id, err, want)
		}
	}
	if n := len(tg.Calls("sendMessage")); n != 3 || len(is.Texts()) != 2 {
		t.Errorf("%d calls for 2 messages, want 3 with the redirected one", n)
	}
}

func TestIdlePollsProveTheConnection(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	fx := newFixture(t, tg).start()
	fx.waitConnected()
	began := fx.runner.State().LastSuccess
	s := fx.waitState("two more polls", func(s channel.State) bool { return s.LastSuccess.Sub(began) > 1500*time.Millisecond })
	if s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("state %+v", s)
	}
	for _, c := range tg.Calls("getUpdates")[1:] {
		if c.Params["timeout"] != 1.0 || c.Params["offset"] != nil {
			t.Errorf("a poll with %v", c.Params)
		}
	}
}
