package slack_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/slack/slacktest"
)

const mention = "<@" + slacktest.BotID + ">"

func TestPlatformEventsBecomeChatEvents(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, bob := sl.Person("Ann"), sl.Person("Bob")
	dm, dev, few := ann.Private(), sl.Channel("dev"), sl.Group("few")
	w := newFixture(t, sl).start()
	w.waitConnected()
	one := ann.Sends(dm, "one &lt;b&gt; &amp; see <https://example.org/a?b=1&amp;c=2|this> or <https://example.org>")
	two := ann.Sends(dm, "two", slacktest.MessageOptions{Thread: one})
	three := bob.Sends(dev, mention+" three, with <@"+ann.ID+"> in <#C0DEV|dev>, <!here>")
	four := bob.Sends(dev, "four, to nobody")
	five := ann.Sends(dev, "five, in the thread", slacktest.MessageOptions{Thread: three})
	six := ann.Sends(few, "six "+mention, slacktest.MessageOptions{Thread: three, Broadcast: true})
	type place struct{ chat, topic string }
	for i, want := range []struct {
		ts, text, name string
		at             place
		group, to      bool
	}{
		{one, "one <b> & see [this](https://example.org/a?b=1&c=2) or https://example.org", "Ann", place{dm.ID, ""}, false, true},
		{two, "two", "Ann", place{dm.ID, one}, false, true},
		{three, "@mailroom three, with @Ann in #dev, @here", "Bob", place{dev.ID, three}, true, true},
		{four, "four, to nobody", "Bob", place{dev.ID, four}, true, false},
		{five, "five, in the thread", "Ann", place{dev.ID, three}, true, false},
		{six, "six @mailroom", "Ann", place{few.ID, three}, true, true},
	} {
		e := w.waitEvents(6)[i]
		if e.Kind != chat.EventMessage || e.Key != e.Room.Chat+":"+want.ts || e.Text != want.text || e.User.Name != want.name ||
			(place{e.Room.Chat, e.Room.Topic}) != want.at || e.Room.Group != want.group || e.Addressed != want.to {
			t.Errorf("event %d is %+v, want %+v", i+1, e, want)
		}
	}
}

func TestMentionArrivesTwiceWithOneKey(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	w := newFixture(t, sl).start()
	w.waitConnected()
	ann.Sends(dev, mention+" hello")
	waitFor(t, "both events", func() bool { return len(w.recorded()) == 2 })
	both := w.recorded()
	if both[0].Key != both[1].Key || both[0].Text != both[1].Text || both[0].Room != both[1].Room || !both[0].Addressed || !both[1].Addressed {
		t.Errorf("one mention is %+v and %+v", both[0], both[1])
	}
	ann.Sends(dev, mention+" alone", slacktest.MessageOptions{OnlyEvent: "app_mention"}) // where the app hears of nothing else
	if e := w.waitEvents(2)[1]; e.Text != "@mailroom alone" || !e.Addressed || !e.Room.Group {
		t.Errorf("a mention alone is %+v", e)
	}
}

func TestForwardedMessageIsPartOfTheText(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	w := newFixture(t, sl).start()
	w.waitConnected()
	ann.Sends(ann.Private(), "see", slacktest.MessageOptions{Forwarded: "one &lt; two\nthree"})
	ann.Sends(ann.Private(), "", slacktest.MessageOptions{Forwarded: "<@" + ann.ID + ">?"})
	got := w.waitEvents(2)
	if got[0].Text != "see\nBob wrote:\n> one < two\n> three" || got[1].Text != "Bob wrote:\n> @Ann?" {
		t.Errorf("taken was %q and %q", got[0].Text, got[1].Text)
	}
}

func TestFlatChannelIsOneRoom(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	w := newFixture(t, sl)
	w.options.Flat = true
	w.start()
	p := w.waitConnected()
	one := ann.Sends(dev, mention+" one")
	ann.Sends(dev, mention+" two", slacktest.MessageOptions{Thread: one})
	bot, err := p.Send(t.Context(), chat.Room{Chat: dev.ID, Group: true}, chat.Message{Text: "three"}, "k")
	if err != nil {
		t.Fatal(err)
	}
	_, root, _ := strings.Cut(bot, ":")
	ann.Sends(dev, "four", slacktest.MessageOptions{Thread: root}) // it answers the bot
	for i, want := range []struct {
		topic string
		to    bool
	}{{"", true}, {one, true}, {root, true}} {
		if e := w.waitEvents(3)[i]; e.Room.Topic != want.topic || e.Addressed != want.to {
			t.Errorf("event %d is %+v, want %+v", i+1, e, want)
		}
	}
}

func TestEditsAndDeletionsNameTheirMessage(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	w := newFixture(t, sl).start()
	w.waitConnected()
	one := ann.Sends(dev, mention+" one")
	ann.Edits(dev, one, mention+" won")
	ann.Edits(dev, one, mention+" one again")
	dev.Unfurl(one) // changes nothing that was said
	ann.Sends(dev, "a reply", slacktest.MessageOptions{Thread: one})
	ann.Deletes(dev, one) // it was replied to, so something is left of it
	two := ann.Sends(dev, mention+" two")
	ann.Deletes(dev, two)
	got := w.waitEvents(7)
	room, first := got[0].Room, dev.ID+":"+one
	for i, want := range map[int]struct {
		kind chat.EventKind
		text string
	}{1: {chat.EventEdited, "@mailroom won"}, 2: {chat.EventEdited, "@mailroom one again"}, 4: {chat.EventDeleted, ""}} {
		if e := got[i]; e.Kind != want.kind || e.TargetID != first || e.Text != want.text || e.Room != room {
			t.Errorf("event %d is %+v, want %+v", i, e, want)
		}
	}
	if got[1].Key == got[2].Key {
		t.Errorf("two changes have the key %s", got[1].Key)
	}
	if e := got[6]; e.Kind != chat.EventDeleted || e.TargetID != got[5].Key || e.Room != got[5].Room {
		t.Errorf("what was deleted is %+v", e)
	}
}

func TestMessagesNotFromPeopleAreIgnored(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	w := newFixture(t, sl).start()
	p := w.waitConnected()
	id, err := p.Send(t.Context(), chat.Room{Chat: dev.ID, Group: true}, chat.Message{Text: "mine"}, "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Edit(t.Context(), chat.Room{Chat: dev.ID}, id, chat.Message{Text: "mine still"}); err != nil {
		t.Fatal(err)
	}
	ann.Sends(dev, "from another bot", slacktest.MessageOptions{Bot: true})
	ann.Sends(dev, "from another bot", slacktest.MessageOptions{Bot: true, Subtype: "bot_message"})
	ann.Sends(dev, "Ann has joined", slacktest.MessageOptions{Subtype: "channel_join"})
	sl.Push("events_api", map[string]any{"type": "event_callback", "event": map[string]any{"type": "reaction_added", "user": ann.ID}})
	sl.Push("events_api", map[string]any{"type": "event_callback", "event": map[string]any{"type": "message", "text": 7}})
	sl.Push("events_api", map[string]any{"type": "app_rate_limited", "minute_rate_limited": 1518467820})
	sl.Push("slash_commands", map[string]any{"command": "/x"})
	sl.Push("interactive", map[string]any{"type": "view_submission"})
	sl.Push("what_is_new", map[string]any{})
	ann.Sends(dev, "good")
	if got := w.waitEvents(1); got[0].Text != "good" || !strings.Contains(w.logs.String(), "unreadable envelope skipped") {
		t.Errorf("taken was %+v", got)
	}
	if s := w.runner.State(); !strings.Contains(s.LastError, "Slack drops events") {
		t.Errorf("what Slack leaves out is not told: %+v", s)
	}
}

func TestFilesAreDownloadedFromSlackHostsOnly(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	w := newFixture(t, sl).start()
	w.waitConnected()
	ann.Sends(ann.Private(), "look", slacktest.MessageOptions{File: "notes.txt", Content: []byte("one\ntwo")})
	sl.Push("events_api", map[string]any{"type": "event_callback", "event": map[string]any{
		"type": "message", "subtype": "file_share", "channel": ann.Private().ID, "user": ann.ID, "ts": "1700000001.000100", "files": []any{
			map[string]any{"id": "F9", "name": "far.txt", "url_private": "https://slack.example.org/files/F9", "permalink": "https://work.slack.com/files/F9"},
			map[string]any{"id": "F8", "name": "gone.txt", "mode": "tombstone"},
			map[string]any{"id": "F7", "name": "doc", "is_external": true, "url_private": "https://docs.example.org/7"},
		},
	}})
	got := w.waitEvents(2)
	f := got[0].Files[0]
	if got[0].Text != "look" || f.Name != "notes.txt" || f.MimeType != "text/plain" || f.Size != 7 || !strings.HasPrefix(f.URI, "https://work.slack.com/files/") {
		t.Errorf("the file is %+v", f)
	}
	r, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if string(content) != "one\ntwo" || err != nil || r.Close() != nil {
		t.Errorf("the file has %q, %v", content, err)
	}
	sl.RemoveScopes("files:read")
	if _, err := f.Open(t.Context()); sendClass(err) != mailroom.ClassPermanent || !strings.Contains(err.Error(), "302 Found") {
		t.Errorf("a file that may not be read: %v", err)
	}
	others := got[1].Files
	if len(others) != 2 || others[1].Open != nil || others[1].URI != "https://docs.example.org/7" {
		t.Fatalf("the other files are %+v", others)
	}
	if _, err := others[0].Open(t.Context()); sendClass(err) != mailroom.ClassPermanent || !strings.Contains(err.Error(), "not on a Slack host") {
		t.Errorf("the token went elsewhere: %v", err)
	}
}

func TestEnvelopeIsAcknowledgedOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	w := newFixture(t, sl)
	w.failWith(errors.New("the disk is full"))
	ann.Sends(ann.Private(), "one")
	ann.Sends(ann.Private(), "two")
	w.start()
	w.waitState("a third try", func(s channel.State) bool { return s.Adapter >= 3 && strings.Contains(s.LastError, "disk is full") })
	if n, tries := sl.Pending(), sl.MaxAttempts(); n != 2 || tries < 2 {
		t.Fatalf("%d envelopes are left of 2 that nobody took, sent up to %d times", n, tries)
	}
	w.failWith(nil)
	sl.WaitFor(t, "both acknowledged", func() bool { return sl.Pending() == 0 })
	if got := w.texts(); got != "one, two" {
		t.Errorf("taken was %q", got)
	}
}

func TestRedeliveredEnvelopeHasTheSameKey(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	w := newFixture(t, sl).start()
	p := w.waitConnected()
	twice := func(n int) {
		t.Helper()
		waitFor(t, "it", func() bool { return len(w.recorded()) == n-1 })
		sl.Redeliver()
		waitFor(t, "it again", func() bool { return len(w.recorded()) == n })
		if e := w.recorded(); e[n-1].Key != e[n-2].Key || e[n-1].Kind != e[n-2].Kind {
			t.Errorf("keys %q %q", e[n-2].Key, e[n-1].Key)
		}
	}
	ts := ann.Sends(ann.Private(), "once")
	twice(2)
	ann.Edits(ann.Private(), ts, "twice")
	twice(4)
	id, err := p.Send(t.Context(), chat.Room{Chat: ann.Private().ID}, chat.Message{Text: "?", Buttons: []chat.Button{{Label: "Yes", Data: "y"}}}, "k")
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := strings.Cut(id, ":")
	sl.WaitFor(t, "what the bot said acknowledged", func() bool { return sl.Pending() == 0 })
	ann.Presses(ann.Private(), at, "Yes")
	twice(6)
	ann.Deletes(ann.Private(), ts)
	twice(8)
}

// TestMessagesSentWhileDisconnectedAreRead in the rooms that are known, also
// when Slack sends nothing of it any more.
func TestMessagesSentWhileDisconnectedAreRead(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	w := newFixture(t, sl).start()
	w.waitConnected()
	ann.Sends(ann.Private(), "one")
	root := ann.Sends(dev, mention+" two")
	w.waitEvents(2)
	sl.Down()
	w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	for i := range 250 { // more than a page
		ann.Sends(ann.Private(), fmt.Sprint("p", i))
	}
	ann.Sends(dev, mention+" in the thread", slacktest.MessageOptions{Thread: root})
	other := ann.Sends(dev, mention+" in the channel")
	ann.Sends(dev, mention+" in the new thread", slacktest.MessageOptions{Thread: other})
	sl.DropPending()
	sl.Up(t)
	ann.Sends(ann.Private(), "now")
	all := w.waitEvents(256)
	last := map[string]string{}
	for _, e := range all {
		if e.Key <= last[e.Room.Chat+e.Room.Topic] {
			t.Errorf("%q comes after what was said later", e.Text)
		}
		last[e.Room.Chat+e.Room.Topic] = e.Key
		if strings.Contains(e.Text, "new thread") && e.Room.Topic != other || strings.Contains(e.Text, "the thread") && e.Room.Topic != root {
			t.Errorf("%+v is somewhere else", e)
		}
	}
	// Nothing of it comes again.
	before := len(w.recorded())
	sl.Down()
	w.waitState("queued", func(s channel.State) bool { return s.Condition != channel.ConditionConnected })
	sl.Up(t)
	ann.Sends(ann.Private(), "the end")
	w.waitEvents(257)
	if n := len(w.recorded()) - before; n > 2 { // from the history, and as an event
		t.Errorf("%d events came of one message", n)
	}
}

func TestLongHistoryIsReadUpToTheLimit(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	root := ann.Sends(dev, "before")
	first := ann.Sends(ann.Private(), "before")
	for i := range 2100 {
		ann.Sends(dev, fmt.Sprint("reply ", i), slacktest.MessageOptions{Thread: root})
		ann.Sends(ann.Private(), fmt.Sprint("word ", i))
	}
	sl.DropPending()
	w := newFixture(t, sl).startAt(fmt.Sprintf(`{%q:%q,%q:%q}`, dev.ID+":"+root, root, ann.Private().ID, first)).start()
	w.waitConnected()
	count := func(what string) (n int) {
		for _, e := range w.recorded() {
			if strings.HasPrefix(e.Text, what) {
				n++
			}
		}
		return n
	}
	waitFor(t, "the whole thread", func() bool { return count("reply ") == 2100 })
	waitFor(t, "the end of the channel", func() bool { return count("word ") == 2000 && strings.Contains(w.texts(), "word 2099") })
	if s := w.runner.State(); !strings.Contains(s.LastError, "only the last 2000") || strings.Contains(w.texts(), "word 99,") {
		t.Errorf("what is too far back is not told: %+v", s)
	}
}

func TestRateLimitedHistoryIsReadLater(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, bob := sl.Person("Ann"), sl.Person("Bob")
	first := ann.Sends(ann.Private(), "before")
	ann.Sends(ann.Private(), "meanwhile")
	sl.DropPending()
	sl.Fail("conversations.history", slacktest.Fault{Error: "ratelimited", RetryAfter: 1})
	w := newFixture(t, sl).startAt(fmt.Sprintf(`{%q:%q}`, ann.Private().ID, first)).start()
	w.waitConnected()
	ann.Sends(ann.Private(), "live")
	bob.Sends(bob.Private(), "someone else")
	waitFor(t, "what is said now", func() bool { return len(w.recorded()) >= 2 })
	if got := w.texts(); got != "live, someone else" && got != "someone else, live" { // the order is that of a room
		t.Errorf("while the history is limited: %q", got)
	}
	var saved map[string]string
	if err := json.Unmarshal([]byte(w.recorded()[0].Position), &saved); err != nil || saved[ann.Private().ID] != first {
		t.Errorf("the position is %v, %v: it has passed over what was not read", saved, err)
	}
	waitFor(t, "what was said meanwhile", func() bool { return strings.Contains(w.texts(), "meanwhile") })
	if got := w.texts(); !strings.HasSuffix(got, ", meanwhile") || len(got) != len("live, someone else, meanwhile") {
		t.Errorf("taken was %q", got)
	}
}

func TestMissingHistoryScopeIsReported(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("im:history")
	ann := sl.Person("Ann")
	dev := sl.Channel("dev")
	at := fmt.Sprintf(`{%q:"1700000000.000001",%q:"1700000000.000001","D0GONE":"1700000000.000001","D0GONE:1.000001":"1700000000.000001"}`, ann.Private().ID, dev.ID)
	ann.Sends(dev, "there")
	sl.DropPending()
	w := newFixture(t, sl).startAt(at).start()
	w.waitConnected()
	ann.Sends(ann.Private(), "here")
	if w.waitEvents(2); !strings.Contains(w.texts(), "there") || !strings.Contains(w.texts(), "here") {
		t.Errorf("taken was %q", w.texts())
	}
	s := w.waitState("trouble", func(s channel.State) bool { return s.LastError != "" })
	if !strings.Contains(s.LastError, "missing_scope (needs im:history)") || s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("the state is %+v", s)
	}
	waitFor(t, "what is not there any more left out", func() bool {
		n := len(w.recorded())
		ann.Sends(ann.Private(), "and?")
		waitFor(t, "it", func() bool { return len(w.recorded()) > n })
		return !strings.Contains(w.recorded()[n].Position, "D0GONE")
	})
}

func TestPositionIsBoundedAndMalformedOnesAreIgnored(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	w := newFixture(t, sl).startAt(`{"C0DEV":"99999999999.999999","":"1.000001","C1":"yesterday"}`).start()
	w.waitConnected()
	for range 300 {
		ann.Sends(dev, mention+" a thread of its own")
	}
	w.waitEvents(300)
	var at map[string]string
	last := w.recorded()[len(w.recorded())-1].Position
	if err := json.Unmarshal([]byte(last), &at); err != nil || len(at) > 200 || len(last) > 16<<10 {
		t.Errorf("%d rooms in %d bytes, %v", len(at), len(last), err)
	}
	if at["C0DEV"] != "99999999999.999999" || at["C1"] != "" || len(at) < 100 { // threads drive no channel out
		t.Errorf("the position is %s", last)
	}
	for _, odd := range []string{"seven", `["C0DEV"]`, `{"C0DEV":7}`} {
		w := newFixture(t, slacktest.New(t)).startAt(odd).start()
		w.waitConnected()
		waitFor(t, "a word about it", func() bool { return strings.Contains(w.logs.String(), "saved position unreadable") })
	}
}

func TestButtonPressIsAnsweredInPrivate(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	w := newFixture(t, sl).start()
	p := w.waitConnected()
	root := ann.Sends(dev, mention+" go")
	room := chat.Room{Chat: dev.ID, Topic: root, Group: true}
	id, err := p.Send(t.Context(), room, chat.Message{Text: "Go on?", Buttons: []chat.Button{{Label: "Yes", Data: "y"}, {Label: "No", Data: "n"}}}, "k")
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := strings.Cut(id, ":")
	ann.Presses(dev, at, "No")
	tap := w.waitEvents(2)[1]
	if tap.Kind != chat.EventButton || tap.TargetID != id || tap.Data != "n" || tap.User.ID != ann.ID || tap.User.Name != "Ann" || tap.Room != room {
		t.Errorf("the tap is %+v, want it in %+v", tap, room)
	}
	if err := p.AckButton(t.Context(), tap, "Denied by <Ann>."); err != nil {
		t.Fatal(err)
	}
	if told := dev.Ephemeral(ann); len(told) != 1 || told[0] != "Denied by <Ann>." || len(dev.Texts()) != 1 {
		t.Errorf("Ann was told %q, and the channel has %q", told, dev.Texts())
	}
}

func TestIdlePongsProveTheConnection(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	w := newFixture(t, sl).start()
	w.waitConnected()
	began := w.runner.State().LastSuccess
	s := w.waitState("more pongs", func(s channel.State) bool { return s.LastSuccess.Sub(began) > 800*time.Millisecond })
	if s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("the state is %+v", s)
	}
}
