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

func TestWhatPeopleDoArrivesAsItIsMeant(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	w := newAlone(t, tg)
	ann := tg.Person("Ann")
	private, group, news := ann.Private(), tg.Group("team"), tg.Chat(-1009999, "channel", "news")
	w.run()
	p := w.connected()
	sent, err := p.Send(t.Context(), room(group), chat.Message{Text: "Go on?", Buttons: []chat.Button{{Words: "Yes", Data: "yes:1"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	topic := group.Topic()
	first := ann.Says(private, "héllo 👋")
	ann.Edits(private, first, "hello")
	ann.Says(private, "see", telegramtest.Said{File: "notes.txt", Content: []byte("one\ntwo")})
	ann.Says(private, "", telegramtest.Said{File: "p", Content: []byte("jpeg"), Photo: true})
	ann.Says(group, "just talking")
	ann.Says(group, "👋👋 what says @Mailroom_Bot to this?")
	ann.Says(group, "/status@mailroom_bot now")
	ann.Says(group, "/stop")
	ann.Says(group, "/stop@other_bot")
	ann.Says(group, "mail@mailroom_bot is no name")
	ann.Says(group, "yes", telegramtest.Said{Answers: number(sent)})
	ann.Says(group, "in a topic", telegramtest.Said{Topic: topic})
	ann.Says(news, "a post")
	ann.Taps(group, number(sent), "Yes")
	until(t, "all that was said", func() bool { return len(w.taken()) == 13 })

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
		said(chat.Event{Room: inPrivate, Kind: chat.EventEdited, Of: fmt.Sprintf("%d:%d", private.ID, first), Text: "hello", Addressed: true}),
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
		said(chat.Event{Kind: chat.EventButton, Of: sent, Data: "yes:1", Addressed: true}),
	}
	got := w.taken()
	opened := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Open" }, cmp.Ignore())
	if diff := cmp.Diff(want, got, opened, cmpopts.IgnoreFields(chat.Event{}, "Key", "Position")); diff != "" {
		t.Error(diff)
	}
	keys := map[string]bool{}
	for _, e := range got {
		keys[e.Key] = true
	}
	if len(keys) != len(got) || got[0].Key != got[1].Of {
		t.Errorf("the keys of %d events: %v", len(got), keys)
	}
}

func TestAFileIsFetchedWhenItIsOpened(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newAlone(t, tg).run()
	ann.Says(ann.Private(), "", telegramtest.Said{File: "notes.txt", Content: []byte("one\ntwo")})
	ann.Says(ann.Private(), "", telegramtest.Said{File: "film.mp4", Content: make([]byte, 20<<20+1)})
	until(t, "both files", func() bool { return len(w.taken()) == 2 })
	if n := len(tg.Calls("getFile")); n != 0 {
		t.Errorf("asked for %d files that nobody has opened", n)
	}
	r, err := w.taken()[0].Files[0].Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if string(content) != "one\ntwo" || err != nil || r.Close() != nil {
		t.Errorf("the file has %q, %v", content, err)
	}
	if _, err := w.taken()[1].Files[0].Open(t.Context()); class(err) != mailroom.ClassPermanent || !strings.Contains(err.Error(), "too big") {
		t.Errorf("a file that is too large: %v", err)
	}
}

func TestWhoTappedIsToldOnce(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newAlone(t, tg).run()
	p := w.connected()
	id, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "Go on?", Buttons: []chat.Button{{Words: "Yes", Data: "y"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	tap := ann.Taps(ann.Private(), number(id), "Yes")
	until(t, "the tap", func() bool { return len(w.taken()) == 1 })
	if err := p.AckButton(t.Context(), w.taken()[0], strings.Repeat("é", 300)); err != nil {
		t.Fatal(err)
	}
	if words, times := tap.Answer(tg); times != 1 || len([]rune(words)) != 200 {
		t.Errorf("who tapped is told %q, %d times", words, times)
	}
	tap.Expire(tg)
	if err := p.AckButton(t.Context(), w.taken()[0], "late"); err != nil {
		t.Errorf("an answer that comes too late fails: %v", err)
	}
}

func TestAnAdminIsNotMeantByABareCommand(t *testing.T) {
	tg := telegramtest.New(t)
	w := newAlone(t, tg).run()
	ann, member, admin := tg.Person("Ann"), tg.Group("member"), tg.Group("admin")
	admin.Admin()
	for range 2 { // it is asked once
		ann.Says(member, "/stop")
		ann.Says(admin, "/stop")
		ann.Says(admin, "/stop@Mailroom_bot")
	}
	tg.Until(t, "all of them", func() bool { return len(w.taken()) == 6 })
	var got []bool
	for _, e := range w.taken() {
		got = append(got, e.Addressed)
	}
	if diff := cmp.Diff([]bool{true, false, true, true, false, true}, got); diff != "" {
		t.Errorf("addressed (-want +got):\n%s", diff)
	}
	if n := len(tg.Calls("getChatMember")); n != 2 {
		t.Errorf("it is asked %d times what the bot is", n)
	}
}

func TestABotThatReadsAllIsNotMeantByABareCommand(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	tg.ReadsAll(true)
	ann, group := tg.Person("Ann"), tg.Group("team")
	ann.Says(group, "/stop")
	ann.Says(group, "/stop@Mailroom_bot")
	w := newAlone(t, tg).run()
	until(t, "both", func() bool { return len(w.taken()) == 2 })
	if got := w.taken(); got[0].Addressed || !got[1].Addressed {
		t.Errorf("addressed are %t and %t", got[0].Addressed, got[1].Addressed)
	}
}

// TestABotThatOverhearsIsNotMeantByABareCommand: privacy mode that was turned on changes
// nothing in a group until the bot is added there again.
func TestABotThatOverhearsIsNotMeantByABareCommand(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann, talk, quiet := tg.Person("Ann"), tg.Group("talk"), tg.Group("quiet")
	ann.Says(talk, "just talking")
	for _, group := range []*telegramtest.Chat{talk, quiet} {
		ann.Says(group, "/stop")
		ann.Says(group, "/stop@Mailroom_bot")
	}
	w := newAlone(t, tg).run()
	until(t, "all of them", func() bool { return len(w.taken()) == 5 })
	var got []bool
	for _, e := range w.taken()[1:] {
		got = append(got, e.Addressed)
	}
	if diff := cmp.Diff([]bool{false, true, true, true}, got); diff != "" {
		t.Errorf("addressed (-want +got):\n%s", diff)
	}
	if w.traits.PerMinute != 20 {
		t.Errorf("a group takes %d messages a minute", w.traits.PerMinute)
	}
}

func TestAnUpdateIsConfirmedOnceItWasTaken(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newAlone(t, tg)
	w.refuses(errors.New("the disk is full"))
	ann.Says(ann.Private(), "one")
	ann.Says(ann.Private(), "two")
	w.run()
	w.untilState("a second try", func(s channel.State) bool { return s.Adapter >= 3 && strings.Contains(s.Reason, "disk is full") })
	if n := tg.Pending(); n != 2 {
		t.Fatalf("%d updates are left of 2 that nobody took", n)
	}
	for _, c := range tg.Calls("getUpdates") {
		if c.In["offset"] != nil {
			t.Fatalf("offset %v confirms what was not taken", c.In["offset"])
		}
	}
	w.refuses(nil)
	tg.Until(t, "both confirmed", func() bool { return tg.Pending() == 0 })
	if got := w.texts(); got != "one, two" {
		t.Errorf("taken was %q", got)
	}
}

func TestNumbersThatBeginAnewSkipNothing(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newAlone(t, tg).run()
	w.connected()
	ann.Says(ann.Private(), "before")
	tg.Until(t, "the first confirmed", func() bool { return tg.Pending() == 0 })
	// The poll that confirmed it has an offset; a week would be over it by far.
	polls := len(tg.Calls("getUpdates"))
	tg.Until(t, "the next poll", func() bool { return len(tg.Calls("getUpdates")) > polls })
	tg.Renumber(17)
	ann.Says(ann.Private(), "after")
	ann.Says(ann.Private(), "and on")
	tg.Until(t, "the others confirmed", func() bool { return tg.Pending() == 0 })
	if got := w.texts(); got != "before, after, and on" {
		t.Errorf("taken was %q", got)
	}
}

func TestAnUpdateThatComesTwiceHasItsKey(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newAlone(t, tg).run()
	first := ann.Says(ann.Private(), "once")
	tg.Until(t, "it confirmed", func() bool { return tg.Pending() == 0 })
	tg.Again()
	until(t, "it again", func() bool { return len(w.taken()) == 2 })
	ann.Edits(ann.Private(), first, "twice")
	until(t, "the edit", func() bool { return len(w.taken()) == 3 })
	tg.Until(t, "it confirmed", func() bool { return tg.Pending() == 0 })
	tg.Again()
	until(t, "the edit again", func() bool { return len(w.taken()) == 4 })
	e := w.taken()
	if e[0].Key != e[1].Key || e[2].Key != e[3].Key || e[0].Key == e[2].Key {
		t.Errorf("keys %q %q %q %q", e[0].Key, e[1].Key, e[2].Key, e[3].Key)
	}
}

func TestWhatIsNotUnderstoodIsLeftOut(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newAlone(t, tg)
	tg.Fail("getUpdates", telegramtest.Fault{Raw: `{"ok":true,"result":[{"update_id":3,"message":{"message_id":"x"}},{"update_id":4,"poll":{"id":"1"}},{"update_id":5,"message":{"message_id":9,"chat":{"id":1,"type":"private"}}}]}`})
	w.run()
	tg.Until(t, "them confirmed", func() bool {
		calls := tg.Calls("getUpdates")
		return len(calls) > 0 && calls[len(calls)-1].In["offset"] == 6.0
	})
	ann.Says(ann.Private(), "good")
	until(t, "what is good", func() bool { return len(w.taken()) > 0 })
	if got := w.texts(); got != "good" || !strings.Contains(w.logs.all(), "update=3") {
		t.Errorf("taken was %q", got)
	}
}

func TestAGroupThatBecomesAnotherIsTold(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	old, is := tg.Chat(-77, "group", "team"), tg.Group("team")
	w := newAlone(t, tg).run()
	p := w.connected()
	old.Becomes(ann, is)
	tg.Until(t, "it confirmed", func() bool { return tg.Pending() == 0 })
	if len(w.taken()) != 0 || !strings.Contains(w.logs.all(), "was=-77") {
		t.Errorf("%d events of it", len(w.taken()))
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

func TestPollsGoOnWhileNobodySpeaksAndAreEvidence(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	w := newAlone(t, tg).run()
	w.connected()
	began := w.runner.State().LastSuccess
	s := w.untilState("two polls more", func(s channel.State) bool { return s.LastSuccess.Sub(began) > 1500*time.Millisecond })
	if s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("the state is %+v", s)
	}
	for _, c := range tg.Calls("getUpdates")[1:] {
		if c.In["timeout"] != 1.0 || c.In["offset"] != nil {
			t.Errorf("a poll asked %v", c.In)
		}
	}
}
