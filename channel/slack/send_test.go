package slack_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/slack/slacktest"
)

func privateRoom(p *slacktest.Person) chat.Room { return chat.Room{Chat: p.Private().ID} }

func TestAMessageIsSentAndEdited(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	p := newRecorder(t, sl).Start().AwaitConnected()
	root := ann.Sends(dev, "well?")
	room := chat.Room{Chat: dev.ID, Topic: root, Group: true}
	id, err := p.Send(t.Context(), room, chat.Message{
		Text: "**Run** `rm <x>` & go?", Buttons: []chat.Button{{Label: "Approve", Data: strings.Repeat("a", 64)},
			{Label: "Deny", Data: "d"}}, ReplyTo: dev.ID + ":" + root,
	}, "key")
	if err != nil {
		t.Fatal(err)
	}
	m := dev.Replies()[0]
	if m.Source != "*Run* `rm &lt;x&gt;` &amp; go?" || m.Details.Section != m.Source || m.Thread != root ||
		len(m.Buttons) != 2 || id != dev.ID+":"+m.ID {
		t.Errorf("sent %+v with id %s", m, id)
	}
	if err := p.Edit(t.Context(), room, id, chat.Message{Text: "Approved."}); err != nil {
		t.Fatal(err)
	}
	if m := dev.Replies()[0]; m.Text != "Approved." || len(m.Buttons) != 0 || m.Details.Section != "" {
		t.Errorf("after the edit: %+v", m)
	}
	for _, c := range sl.Calls("chat.postMessage") {
		if c.Params["unfurl_links"] != "false" || c.Params["token"] != nil {
			t.Errorf("parameters %v", c.Params)
		}
	}
	dev.Remove(m.ID)
	if err := p.Edit(t.Context(), room, id,
		chat.Message{Text: "x"}); channeltest.SendClass(err) != mailroom.ClassPermanent {
		t.Errorf("an edit of a missing message: %v", err)
	}
	if err := p.Edit(t.Context(), room, "nothing",
		chat.Message{Text: "x"}); channeltest.SendClass(err) != mailroom.ClassPermanent {
		t.Errorf("an edit of an invalid id: %v", err)
	}
}

func TestAMessageIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	fx := newRecorder(t, sl).Start()
	p := fx.AwaitConnected()
	root := ann.Sends(dev, "well?")
	for _, room := range []chat.Room{privateRoom(ann), {Chat: dev.ID, Group: true},
		{Chat: dev.ID, Topic: root, Group: true}} {
		sl.Fail("chat.postMessage", slacktest.Fault{Lose: true})
		if _, err := p.Send(t.Context(), room, chat.Message{Text: "once"},
			"the key"); channeltest.SendClass(err) != channeltest.ClassUnknown {
			t.Errorf("a lost response: %v", err)
		}
		id, found, err := p.Find(t.Context(), room, "the key", chat.Message{})
		if !found || err != nil || !strings.HasPrefix(id, room.Chat+":") {
			t.Errorf("Find in %+v: %q, %t, %v", room, id, found, err)
		}
		if _, found, err := p.Find(t.Context(), room, "another", chat.Message{}); found || err != nil {
			t.Errorf("Find of an unsent key: %t, %v", found, err)
		}
		if err := p.Edit(t.Context(), room, id, chat.Message{Text: "edited"}); err != nil {
			t.Fatal(err)
		}
		if again, found, err := p.Find(t.Context(), room, "the key", chat.Message{}); again != id || !found || err != nil {
			t.Errorf("Find after the edit: %q, %t, %v", again, found, err)
		}
	}
	for range 210 { // onto the second page
		ann.Sends(ann.Private(), "more")
	}
	if _, found, err := p.Find(t.Context(), privateRoom(ann), "the key", chat.Message{}); !found || err != nil {
		t.Errorf("on the second page: %t, %v", found, err)
	}
	for range 2000 {
		ann.Sends(ann.Private(), "much more")
	}
	if _, _, err := p.Find(t.Context(), privateRoom(ann), "the key", chat.Message{}); !errors.Is(err, chat.ErrNoHistory) {
		t.Errorf("beyond the last page: %v", err)
	}
	sl.RemoveScopes("channels:history")
	if _, _, err := p.Find(t.Context(), chat.Room{Chat: dev.ID}, "the key", chat.Message{}); !errors.Is(err,
		chat.ErrNoHistory) {
		t.Errorf("without the scope: %v", err)
	}
	fx.AwaitError("channels:history")
	sl.Fail("conversations.history", slacktest.Fault{Code: "internal_error"},
		slacktest.Fault{Code: "ratelimited", RetryAfter: 7})
	for range 2 {
		if _, found, err := p.Find(t.Context(), privateRoom(ann), "the key", chat.Message{}); found || err == nil ||
			errors.Is(err, chat.ErrNoHistory) {
			t.Errorf("a failed history: %t, %v", found, err)
		}
	}
}

func TestWithoutMetadataScopeFindReportsNoHistory(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("metadata.message:read")
	ann := sl.Person("Ann")
	fx := newRecorder(t, sl).Start()
	p := fx.AwaitConnected()
	if _, err := p.Send(t.Context(), privateRoom(ann), chat.Message{Text: "x"}, "the key"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Find(t.Context(), privateRoom(ann), "the key", chat.Message{}); !errors.Is(err, chat.ErrNoHistory) {
		t.Errorf("a history without keys: %v", err)
	}
	fx.AwaitError("metadata.message:read")
}

func TestRateLimitIsReportedWithoutAnotherTry(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	p := newRecorder(t, sl).Start().AwaitConnected()
	id, err := p.Send(t.Context(), privateRoom(ann), chat.Message{Text: "one"}, "k")
	if err != nil {
		t.Fatal(err)
	}
	sl.Limit("chat.postMessage", 40*time.Second)
	sl.Limit("chat.update", 40*time.Second)
	for name, c := range map[string]struct {
		call func() error
		all  bool // the limit covers all rooms
	}{
		"chat.postMessage": {func() error {
			_, err := p.Send(t.Context(), privateRoom(ann), chat.Message{Text: "two"}, "k2")
			return err
		}, false},
		"chat.update": {func() error { return p.Edit(t.Context(), privateRoom(ann), id, chat.Message{Text: "two"}) }, true},
	} {
		before := len(sl.Calls(name))
		err := c.call()
		f := mailroom.AsFailure(err)
		if f.Class != mailroom.ClassUnavailable || f.RetryAfter < 35*time.Second || f.RetryAfter > 41*time.Second ||
			errors.Is(err, mailroom.ErrUnknown) || errors.Is(err, chat.ErrEverywhere) != c.all {
			t.Errorf("%s: %s, after %s: %v", name, f.Class, f.RetryAfter, err)
		}
		if n := len(sl.Calls(name)) - before; n != 1 {
			t.Errorf("%s was called %d times", name, n)
		}
	}
}

func TestAButtonWithTooMuchDataIsRefused(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	p := newRecorder(t, sl).Start().AwaitConnected()
	if _, err := p.Send(t.Context(), privateRoom(ann),
		chat.Message{Text: "x", Buttons: []chat.Button{{Label: "y", Data: strings.Repeat("z", 256)}}},
		"k"); channeltest.SendClass(err) != mailroom.ClassPermanent {
		t.Errorf("a button with too much data is %s: %v", channeltest.SendClass(err), err)
	}
}

// TestATokenThatIsRevokedEndsTheConnection revokes the bot's token while the socket, opened
// with the app's token, stays open. The unsent message waits.
func TestATokenThatIsRevokedEndsTheConnection(t *testing.T) {
	t.Parallel()
	for word, happen := range map[string]func(*slacktest.Platform){
		"token_revoked": func(sl *slacktest.Platform) { sl.RevokeBot(true) },
		"missing_scope": func(sl *slacktest.Platform) { sl.RemoveScopes("chat:write") },
	} {
		sl := slacktest.New(t)
		ann := sl.Person("Ann")
		fx := newRecorder(t, sl).Start()
		p := fx.AwaitConnected()
		happen(sl)
		if _, err := p.Send(t.Context(), privateRoom(ann), chat.Message{Text: "x"},
			"k"); channeltest.SendClass(err) != mailroom.ClassUnavailable {
			t.Errorf("%s is %s: %v", word, channeltest.SendClass(err), err)
		}
		s := fx.AwaitState("refused", func(s channel.State) bool {
			return s.Condition == channel.ConditionQueued && strings.Contains(s.Reason, "refused since")
		})
		if !strings.Contains(s.Reason, word) || !strings.Contains(s.Reason, "https://api.slack.com/apps") {
			t.Errorf("reason %q", s.Reason)
		}
	}
}

func TestLongTextIsSentPlainIfItsMarkupDoesNotFit(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	fx := newRecorder(t, sl).Start()
	p := fx.AwaitConnected()
	for name, line := range map[string]string{"signs": "<&>", "a table": "|a|\n|-|\n", "smiles": "👋🏽", "words": "word "} {
		var text strings.Builder
		for fx.Capabilities().Units(text.String()+line) <= fx.Capabilities().MaxUnits {
			text.WriteString(line)
		}
		for _, buttons := range [][]chat.Button{nil, {{Label: strings.Repeat("é", 100), Data: "y"}}} {
			if _, err := p.Send(t.Context(), privateRoom(ann), chat.Message{Text: text.String(), Buttons: buttons},
				"k"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if n := len(ann.Private().Replies()); n != 8 {
		t.Errorf("%d messages, want 8", n)
	}
	if _, err := p.Send(t.Context(), privateRoom(ann), chat.Message{Text: "<!channel> <@U1> <https://example.org|here>"},
		"k"); err != nil {
		t.Errorf("mentions as plain text: %v", err)
	}
	if got := fmt.Sprint(ann.Private().Texts()[8:]); got != "[<!channel> <@U1> <https://example.org|here>]" {
		t.Errorf("text %s", got)
	}
}
