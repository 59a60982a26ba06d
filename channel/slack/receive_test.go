package slack_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/platformtest"
	"mailroom/channel/slack"
	"mailroom/channel/slack/slacktest"
)

const mention = "<@" + slacktest.BotID + ">"

func TestPlatformEventsBecomeChatEvents(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, bob := sl.Person("Ann"), sl.Person("Bob")
	dm, dev, few := ann.Private(), sl.Channel("dev"), sl.Group("few")
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	one := ann.Sends(dm, "one &lt;b&gt; &amp; see <https://example.org/a?b=1&amp;c=2|this> or <https://example.org>")
	two := ann.Sends(dm, "two", slacktest.MessageOptions{Thread: one})
	three := bob.Sends(dev, mention+" three, with <@"+ann.ID+"> in <#C0DEV|dev>, <!here>")
	four := bob.Sends(dev, "four, not addressed")
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
		{four, "four, not addressed", "Bob", place{dev.ID, four}, true, false},
		{five, "five, in the thread", "Ann", place{dev.ID, three}, true, false},
		{six, "six @mailroom", "Ann", place{few.ID, three}, true, true},
	} {
		e := fx.AwaitEvents(6)[i]
		if e.Kind != chat.EventMessage || e.Key != e.Room.Chat+":"+want.ts || e.Text != want.text ||
			e.User.Name != want.name ||
			(place{e.Room.Chat, e.Room.Topic}) != want.at || e.Room.Group != want.group || e.Addressed != want.to {
			t.Errorf("event %d is %+v, want %+v", i+1, e, want)
		}
	}
}

func TestAMentionThatArrivesTwiceHasOneKey(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	ann.Sends(dev, mention+" hello")
	platformtest.WaitFor(t, "both events", func() bool { return len(fx.Recorded()) >= 2 })
	both := fx.Recorded()
	if both[0].Key != both[1].Key || both[0].Text != both[1].Text || both[0].Room != both[1].Room || !both[0].Addressed ||
		!both[1].Addressed {
		t.Errorf("events of one mention: %+v and %+v", both[0], both[1])
	}
	// as for an app without message events
	ann.Sends(dev, mention+" alone", slacktest.MessageOptions{OnlyEvent: "app_mention"})
	if e := fx.AwaitEvents(2)[1]; e.Text != "@mailroom alone" || !e.Addressed || !e.Room.Group {
		t.Errorf("event of a mention without a message: %+v", e)
	}
}

func TestForwardedMessageIsNotPartOfTheText(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	ann.Sends(ann.Private(), "see", slacktest.MessageOptions{Forwarded: "one &lt; two\nthree"})
	ann.Sends(ann.Private(), "", slacktest.MessageOptions{Forwarded: "<@" + ann.ID + ">?"})
	got := fx.AwaitEvents(2)
	for i, want := range []chat.Event{{Text: "see", Context: []chat.Context{{Text: "one < two\nthree"}}},
		{Context: []chat.Context{{Text: "@Ann?"}}}} {
		want.Context[0].Kind, want.Context[0].Author.Name = chat.ContextForward, "Bob"
		if got[i].Text != want.Text || !slices.Equal(got[i].Context, want.Context) {
			t.Errorf("recorded %q with %+v", got[i].Text, got[i].Context)
		}
	}
}

func TestFlatChannelIsOneRoom(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	fx := newRecorder(t, sl, func(o *slack.Options) { o.Flat = true }).Start()
	p := fx.AwaitConnected()
	one := ann.Sends(dev, mention+" one")
	ann.Sends(dev, mention+" two", slacktest.MessageOptions{Thread: one})
	bot, err := p.Send(t.Context(), chat.Room{Chat: dev.ID, Group: true}, chat.Message{Text: "three"}, "k")
	if err != nil {
		t.Fatal(err)
	}
	_, root, _ := strings.Cut(bot, ":")
	ann.Sends(dev, "four", slacktest.MessageOptions{Thread: root}) // a reply to the bot
	for i, want := range []struct {
		topic string
		to    bool
	}{{"", true}, {one, true}, {root, true}} {
		if e := fx.AwaitEvents(3)[i]; e.Room.Topic != want.topic || e.Addressed != want.to {
			t.Errorf("event %d is %+v, want %+v", i+1, e, want)
		}
	}
}

func TestEditsAndDeletionsNameTheirMessage(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	one := ann.Sends(dev, mention+" one")
	ann.Edits(dev, one, mention+" won")
	ann.Edits(dev, one, mention+" one again")
	dev.Unfurl(one) // not an edit
	ann.Sends(dev, "a reply", slacktest.MessageOptions{Thread: one})
	ann.Deletes(dev, one) // leaves a tombstone because of the reply
	two := ann.Sends(dev, mention+" two")
	ann.Deletes(dev, two)
	got := fx.AwaitEvents(7)
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
		t.Errorf("two edits have the key %s", got[1].Key)
	}
	if e := got[6]; e.Kind != chat.EventDeleted || e.TargetID != got[5].Key || e.Room != got[5].Room {
		t.Errorf("deletion %+v", e)
	}
}

func TestDroppedEventsAreReported(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	sl.Push("events_api", map[string]any{"type": "app_rate_limited", "minute_rate_limited": 1518467820})
	fx.AwaitError("events dropped by Slack")
}

func TestFilesAreDownloadedFromSlackHostsOnly(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	ann.Sends(ann.Private(), "look", slacktest.MessageOptions{File: "notes.txt", Content: []byte("one\ntwo")})
	sl.Push("events_api", map[string]any{"type": "event_callback", "event": map[string]any{
		"type": "message", "subtype": "file_share", "channel": ann.Private().ID, "user": ann.ID, "ts": "1700000001.000100",
		"files": []any{
			map[string]any{"id": "F9", "name": "far.txt", "url_private": "https://slack.example.org/files/F9",
				"permalink": "https://work.slack.com/files/F9"},
			map[string]any{"id": "F8", "name": "gone.txt", "mode": "tombstone"},
			map[string]any{"id": "F7", "name": "doc", "is_external": true, "url_private": "https://docs.example.org/7"},
		},
	}})
	got := fx.AwaitEvents(2)
	f := got[0].Files[0]
	if got[0].Text != "look" || f.Name != "notes.txt" || f.MimeType != "text/plain" || f.Size != 7 ||
		!strings.HasPrefix(f.URI, "https://work.slack.com/files/") {
		t.Errorf("file %+v", f)
	}
	r, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if string(content) != "one\ntwo" || err != nil || r.Close() != nil {
		t.Errorf("content %q, %v", content, err)
	}
	sl.RemoveScopes("files:read")
	if _, err := f.Open(t.Context()); channeltest.SendClass(err) != mailroom.ClassPermanent ||
		!strings.Contains(err.Error(), "302 Found") {
		t.Errorf("a file without the scope: %v", err)
	}
	others := got[1].Files
	if len(others) != 2 || others[1].Open != nil || others[1].URI != "https://docs.example.org/7" {
		t.Fatalf("other files %+v", others)
	}
	if _, err := others[0].Open(t.Context()); channeltest.SendClass(err) != mailroom.ClassPermanent ||
		!strings.Contains(err.Error(), "not on a Slack host") {
		t.Errorf("a file on another host: %v", err)
	}
}

// TestMessagesSentWhileDisconnectedAreRead checks the rooms in the position, after Slack has
// dropped the events.
func TestMessagesSentWhileDisconnectedAreRead(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	ann.Sends(ann.Private(), "one")
	root := ann.Sends(dev, mention+" two")
	fx.AwaitEvents(2)
	sl.Down()
	fx.AwaitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	for i := range 250 { // more than one page
		ann.Sends(ann.Private(), fmt.Sprint("p", i))
	}
	ann.Sends(dev, mention+" in the thread", slacktest.MessageOptions{Thread: root})
	other := ann.Sends(dev, mention+" in the channel")
	ann.Sends(dev, mention+" in the new thread", slacktest.MessageOptions{Thread: other})
	sl.DropPending()
	sl.Up(t)
	ann.Sends(ann.Private(), "now")
	all := fx.AwaitEvents(256)
	last := map[string]string{}
	for _, e := range all {
		if e.Key <= last[e.Room.Chat+e.Room.Topic] {
			t.Errorf("%q is out of order", e.Text)
		}
		last[e.Room.Chat+e.Room.Topic] = e.Key
		if strings.Contains(e.Text, "new thread") && e.Room.Topic != other ||
			strings.Contains(e.Text, "the thread") && e.Room.Topic != root {
			t.Errorf("%+v is in the wrong room", e)
		}
	}
	// Nothing is read a second time.
	before := len(fx.Recorded())
	sl.Down()
	fx.AwaitState("queued", func(s channel.State) bool { return s.Condition != channel.ConditionConnected })
	sl.Up(t)
	ann.Sends(ann.Private(), "the end")
	fx.AwaitEvents(257)
	if n := len(fx.Recorded()) - before; n > 2 { // one from the history, one as an event
		t.Errorf("%d events for one message", n)
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
	fx := resumeAt(t, sl, fmt.Sprintf(`{%q:%q,%q:%q}`, dev.ID+":"+root, root, ann.Private().ID, first))
	fx.AwaitConnected()
	count := func(what string) (n int) {
		for _, e := range fx.Recorded() {
			if strings.HasPrefix(e.Text, what) {
				n++
			}
		}
		return n
	}
	platformtest.WaitFor(t, "the whole thread", func() bool { return count("reply ") == 2100 })
	platformtest.WaitFor(t, "the latest messages of the channel", func() bool {
		return count("word ") == 2000 && strings.Contains(fx.Texts(), "word 2099")
	})
	fx.AwaitError("only the last 2000")
	if strings.Contains(fx.Texts(), "word 99,") {
		t.Error("a skipped message was read")
	}
}

func TestRateLimitedHistoryIsReadLater(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, bob := sl.Person("Ann"), sl.Person("Bob")
	first := ann.Sends(ann.Private(), "before")
	ann.Sends(ann.Private(), "missed")
	sl.DropPending()
	sl.Fail("conversations.history", slacktest.Fault{Code: "ratelimited", RetryAfter: 1})
	fx := resumeAt(t, sl, fmt.Sprintf(`{%q:%q}`, ann.Private().ID, first))
	fx.AwaitConnected()
	ann.Sends(ann.Private(), "live")
	bob.Sends(bob.Private(), "someone else")
	platformtest.WaitFor(t, "the live messages", func() bool { return len(fx.Recorded()) >= 2 })
	if got := fx.Texts(); got != "live, someone else" && got != "someone else, live" { // order is kept within a room only
		t.Errorf("during the rate limit: %q", got)
	}
	var saved map[string]string
	if err := json.Unmarshal([]byte(fx.Recorded()[0].Position), &saved); err != nil || saved[ann.Private().ID] != first {
		t.Errorf("position %v, %v: it is past an unread history", saved, err)
	}
	platformtest.WaitFor(t, "the missed message", func() bool { return strings.Contains(fx.Texts(), "missed") })
	if got := fx.Texts(); !strings.HasSuffix(got, ", missed") || len(got) != len("live, someone else, missed") {
		t.Errorf("recorded %q", got)
	}
}

func TestMissingHistoryScopeIsReported(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("im:history")
	ann := sl.Person("Ann")
	dev := sl.Channel("dev")
	at := fmt.Sprintf(
		`{%q:"1700000000.000001",%q:"1700000000.000001","D0GONE":"1700000000.000001","D0GONE:1.000001":"1700000000.000001"}`,
		ann.Private().ID, dev.ID)
	ann.Sends(dev, "there")
	sl.DropPending()
	fx := resumeAt(t, sl, at)
	fx.AwaitConnected()
	ann.Sends(ann.Private(), "here")
	if fx.AwaitEvents(2); !strings.Contains(fx.Texts(), "there") || !strings.Contains(fx.Texts(), "here") {
		t.Errorf("recorded %q", fx.Texts())
	}
	fx.AwaitError("missing_scope (needs im:history)")
	if s := fx.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("state %+v", s)
	}
	platformtest.WaitFor(t, "removal of the unknown rooms", func() bool {
		n := len(fx.Recorded())
		ann.Sends(ann.Private(), "and?")
		platformtest.WaitFor(t, "the event", func() bool { return len(fx.Recorded()) > n })
		return !strings.Contains(fx.Recorded()[n].Position, "D0GONE")
	})
}

func TestAPositionIsBoundedAndAMalformedPositionIsIgnored(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	fx := resumeAt(t, sl, `{"C0DEV":"99999999999.999999","":"1.000001","C1":"yesterday"}`)
	fx.AwaitConnected()
	for range 300 {
		ann.Sends(dev, mention+" a thread of its own")
	}
	fx.AwaitEvents(300)
	recorded := fx.Recorded() // once, because repetitions of the same events still arrive
	var at map[string]string
	last := recorded[len(recorded)-1].Position
	if err := json.Unmarshal([]byte(last), &at); err != nil || len(at) > 200 || len(last) > 16<<10 {
		t.Errorf("%d rooms in %d bytes, %v", len(at), len(last), err)
	}
	if at["C0DEV"] != "99999999999.999999" || at["C1"] != "" || len(at) < 100 { // threads do not displace channels
		t.Errorf("position %s", last)
	}
	for _, odd := range []string{"seven", `["C0DEV"]`, `{"C0DEV":7}`} {
		fx := resumeAt(t, slacktest.New(t), odd)
		fx.AwaitConnected()
		platformtest.WaitFor(t, "the log entry", func() bool {
			return strings.Contains(fx.Log(), "saved position unreadable")
		})
	}
}
