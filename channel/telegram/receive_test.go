package telegram_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/platformtest"
	"mailroom/channel/telegram/telegramtest"
)

func TestPlatformEventsBecomeChatEvents(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	fx := newRecorder(t, tg)
	ann := tg.Person("Ann")
	private, group, news := ann.Private(), tg.Group("team"), tg.Chat(-1009999, "channel", "news")
	fx.Start()
	p := fx.AwaitConnected()
	sent, err := p.Send(t.Context(), room(group), chat.Message{Text: "Go on?",
		Buttons: []chat.Button{{Label: "Yes", Data: "yes:1"}}}, "")
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
	platformtest.WaitFor(t, "all events", func() bool { return len(fx.Recorded()) >= 13 })

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
		event(chat.Event{Room: inPrivate, Kind: chat.EventEdited, TargetID: fmt.Sprintf("%d:%s", private.ID, first),
			Text: "hello", Addressed: true}),
		event(chat.Event{Room: inPrivate, Text: "see", Addressed: true,
			Files: []chat.File{{Name: "notes.txt", MimeType: "text/plain", Size: 7, URI: "telegram:file/BQACAgIAAx000001"}}}),
		event(chat.Event{Room: inPrivate, Addressed: true,
			Files: []chat.File{{Name: "photo.jpg", MimeType: "image/jpeg", Size: 4, URI: "telegram:file/BQACAgIAAx000002"}}}),
		event(chat.Event{Text: "just talking"}),
		event(chat.Event{Text: "👋👋 what says @Mailroom_Bot to this?", Addressed: true}),
		event(chat.Event{Text: "/status now", Addressed: true}),
		event(chat.Event{Text: "/stop"}), // the earlier message shows that the bot gets all messages
		event(chat.Event{Text: "/stop@other_bot"}),
		event(chat.Event{Text: "mail@mailroom_bot is no name"}),
		event(chat.Event{Text: "yes", Addressed: true, Context: []chat.Context{
			{Kind: chat.ContextReply, ByBot: true, Author: chat.User{ID: "700100200", Name: "Mailroom"}, Text: "Go on?"},
		}}),
		event(chat.Event{Room: inTopic, Text: "in a topic"}),
		event(chat.Event{Kind: chat.EventButton, TargetID: sent, Data: "yes:1", Addressed: true}),
	}
	got := fx.Recorded()
	opened := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Open" }, cmp.Ignore())
	if diff := cmp.Diff(want, got, opened, cmpopts.IgnoreFields(chat.Event{}, "Key", "Position", "Written")); diff != "" {
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

func TestTooLargeFileIsRefused(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newRecorder(t, tg).Start()
	ann.Sends(ann.Private(), "", telegramtest.MessageOptions{File: "film.mp4", Content: make([]byte, 20<<20+1)})
	if _, err := fx.AwaitEvents(1)[0].Files[0].Open(t.Context()); channeltest.SendClass(err) != mailroom.ClassPermanent ||
		!strings.Contains(err.Error(), "too big") {
		t.Errorf("a file over the limit: %v", err)
	}
}

func TestButtonPressIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newRecorder(t, tg).Start()
	p := fx.AwaitConnected()
	id, err := p.Send(t.Context(), room(ann.Private()),
		chat.Message{Text: "Go on?", Buttons: []chat.Button{{Label: "Yes", Data: "y"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	press := ann.Presses(ann.Private(), messageNumber(id), "Yes")
	platformtest.WaitFor(t, "the press", func() bool { return len(fx.Recorded()) >= 1 })
	if err := p.AckButton(t.Context(), fx.Recorded()[0], strings.Repeat("é", 300)); err != nil {
		t.Fatal(err)
	}
	if answers := press.Answers(); len(answers) != 1 || len([]rune(answers[0])) != 200 {
		t.Errorf("the press is answered %q", answers)
	}
	press.Expire()
	if err := p.AckButton(t.Context(), fx.Recorded()[0], "late"); err != nil {
		t.Errorf("a late answer fails: %v", err)
	}
}

func TestBareCommandIsNotForAnAdminBot(t *testing.T) {
	tg := telegramtest.New(t)
	fx := newRecorder(t, tg).Start()
	ann, member, admin := tg.Person("Ann"), tg.Group("member"), tg.Group("admin")
	admin.MakeAdmin()
	for range 2 { // the second time from the cache
		ann.Sends(member, "/stop")
		ann.Sends(admin, "/stop")
		ann.Sends(admin, "/stop@Mailroom_bot")
	}
	platformtest.WaitFor(t, "all events", func() bool { return len(fx.Recorded()) >= 6 })
	var got []bool
	for _, e := range fx.Recorded() {
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
	fx := newRecorder(t, tg).Start()
	platformtest.WaitFor(t, "both", func() bool { return len(fx.Recorded()) >= 2 })
	if got := fx.Recorded(); got[0].Addressed || !got[1].Addressed {
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
	fx := newRecorder(t, tg).Start()
	platformtest.WaitFor(t, "all events", func() bool { return len(fx.Recorded()) >= 5 })
	var got []bool
	for _, e := range fx.Recorded()[1:] {
		got = append(got, e.Addressed)
	}
	if diff := cmp.Diff([]bool{false, true, true, true}, got); diff != "" {
		t.Errorf("addressed (-want +got):\n%s", diff)
	}
	if fx.Capabilities().GroupPerMinute != 20 {
		t.Errorf("GroupPerMinute is %d", fx.Capabilities().GroupPerMinute)
	}
}

func TestRestartedUpdateNumberingSkipsNothing(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newRecorder(t, tg).Start()
	fx.AwaitConnected()
	ann.Sends(ann.Private(), "before")
	tg.WaitFor(t, "the confirmation of the first", func() bool { return tg.Pending() == 0 })
	// Wait for the next poll: the confirming one still has an offset with the old numbering.
	polls := len(tg.Calls("getUpdates"))
	tg.WaitFor(t, "the next poll", func() bool { return len(tg.Calls("getUpdates")) > polls })
	tg.SetNextUpdateID(17)
	ann.Sends(ann.Private(), "after")
	ann.Sends(ann.Private(), "and on")
	tg.WaitFor(t, "the confirmation of the others", func() bool { return tg.Pending() == 0 })
	if got := fx.Texts(); got != "before, after, and on" {
		t.Errorf("recorded %q", got)
	}
}

func TestGroupMigrationIsLoggedAndFollowed(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	old, is := tg.Chat(-77, "group", "team"), tg.Group("team")
	fx := newRecorder(t, tg).Start()
	p := fx.AwaitConnected()
	old.MigrateTo(ann, is)
	tg.WaitFor(t, "the confirmation", func() bool { return tg.Pending() == 0 })
	if len(fx.Recorded()) != 0 || !strings.Contains(fx.Log(), "was=-77") {
		t.Errorf("%d events for the migration", len(fx.Recorded()))
	}
	for range 2 {
		id, err := p.Send(t.Context(), room(old), chat.Message{Text: "hello"}, "")
		if want := fmt.Sprint(is.ID); err != nil || !strings.HasPrefix(id, want+":") {
			t.Errorf("Send() = %q, %v, want an id of chat %s", id, err, want)
		}
	}
	if n := len(tg.Calls("sendMessage")); n != 3 || len(is.Texts()) != 2 {
		t.Errorf("%d calls for 2 messages, want 3 with the redirected one", n)
	}
}

func TestIdlePollsConfirmNothing(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	fx := newRecorder(t, tg).Start()
	fx.AwaitConnected()
	tg.WaitFor(t, "three polls", func() bool { return len(tg.Calls("getUpdates")) > 3 })
	for _, c := range tg.Calls("getUpdates")[1:] {
		if c.Params["timeout"] != 1.0 || c.Params["offset"] != nil {
			t.Errorf("a poll with %v", c.Params)
		}
	}
}

// TestATokenThatWorkedIsNotGivenUpAfterOneRefusal has a Bot API that answers one poll as if the token were wrong.
func TestATokenThatWorkedIsNotGivenUpAfterOneRefusal(t *testing.T) {
	t.Parallel()
	for code, text := range map[int]string{401: "Unauthorized", 404: "Not Found"} {
		tg := telegramtest.New(t)
		ann := tg.Person("Ann")
		fx := newRecorder(t, tg).Start()
		fx.AwaitConnected()
		tg.Fail("getUpdates", telegramtest.Fault{Status: code, Message: text})
		fx.AwaitState("the refusal", func(s channel.State) bool { return strings.Contains(s.LastError, text) })
		ann.Sends(ann.Private(), "still there?")
		fx.AwaitTexts("still there?")
		if s := fx.State(); s.Condition == channel.ConditionFailed {
			t.Errorf("%d: %+v", code, s)
		}
	}
}
