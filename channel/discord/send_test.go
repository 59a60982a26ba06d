package discord_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/discord/discordtest"
	"mailroom/channel/platformtest"
)

func TestAMessageIsSentAndEdited(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	thread := dev.Thread("plans", false)
	p := newRecorder(t, dc).Start().AwaitConnected()
	asked := ann.Sends(thread, "well?")
	id, err := p.Send(t.Context(), room(thread), chat.Message{
		Text:    "**Run** `rm`, @everyone <@1>?",
		Buttons: []chat.Button{{Label: strings.Repeat("A", 90), Data: strings.Repeat("a", 64)}, {Label: "Deny", Data: "d"}},
		ReplyTo: asked,
	}, "key")
	if err != nil {
		t.Fatal(err)
	}
	m := thread.Replies()[0]
	if m.ID != id || m.Text != "**Run** `rm`, @everyone <@1>?" || len(m.Buttons) != 2 || m.ReplyTo != asked ||
		m.Details.Flags != 4 || len(m.Details.Nonce) != 24 {
		t.Errorf("sent %+v with id %s", m, id)
	}
	if err := p.Edit(t.Context(), room(thread), id, chat.Message{Text: "Approved, @here."}); err != nil {
		t.Fatal(err)
	}
	if m := thread.Replies()[0]; m.Text != "Approved, @here." || len(m.Buttons) != 0 || m.Edits != 1 {
		t.Errorf("after the edit: %+v", m)
	}
	if err := p.Typing(t.Context(), room(thread)); err != nil ||
		dc.Calls(discordtest.Typing)[0].Path != "/api/v10/channels/"+thread.ID+"/typing" {
		t.Errorf("typing: %v, %v", err, dc.Calls(discordtest.Typing))
	}
	for _, reply := range []string{"999", "tap:12"} {
		if _, err := p.Send(t.Context(), room(dev), chat.Message{Text: "and", ReplyTo: reply}, ""); err != nil {
			t.Errorf("a reply to %s: %v", reply, err)
		}
	}
	for name, id := range map[string]string{"nothing": "999", "Ann's message": asked, "no id": "x/../1"} {
		if err := p.Edit(t.Context(), room(thread), id,
			chat.Message{Text: "x"}); channeltest.SendClass(err) != mailroom.ClassPermanent {
			t.Errorf("an edit of %s: %v", name, err)
		}
	}
	if pinged := dc.Pinged(); len(pinged) != 0 {
		t.Errorf("mentions notified people: %q", pinged)
	}
}

func TestNonceDeduplicatesAMessage(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	private := ann.Private()
	fx := newRecorder(t, dc).Start()
	p := fx.AwaitConnected()
	first, err := p.Send(t.Context(), room(private), chat.Message{Text: "once"}, "a/1")
	again, err2 := p.Send(t.Context(), room(private), chat.Message{Text: "once"}, "a/1")
	if err != nil || err2 != nil || first != again || len(private.Texts()) != 1 {
		t.Errorf("ids %s and %s, %v %v: %q", first, again, err, err2, private.Texts())
	}
	dc.Fail(discordtest.Send, discordtest.Fault{Lose: true})
	if _, err := p.Send(t.Context(), room(private), chat.Message{Text: "lost"},
		"a/2"); channeltest.SendClass(err) != channeltest.ClassUnknown {
		t.Fatalf("a lost response: %v", err)
	}
	platformtest.WaitFor(t, "the gateway event of the message", func() bool {
		id, found, err := p.Find(t.Context(), room(private), "a/2", chat.Message{Text: "lost"})
		return err == nil && found && id == private.Replies()[1].ID
	})
	if _, _, err := p.Find(t.Context(), room(private), "a/3", chat.Message{Text: "lost"}); !errors.Is(err,
		chat.ErrNoHistory) {
		t.Errorf("Find of an unsent key: %v", err)
	}
	dc.Fail(discordtest.History, discordtest.Fault{Status: 403, Code: "50001", Message: "Missing Access"},
		discordtest.Fault{Status: 429, RetryAfter: 7, Message: "slowly"})
	if _, _, err := p.Find(t.Context(), room(private), "a/3", chat.Message{}); !errors.Is(err, chat.ErrNoHistory) {
		t.Errorf("a forbidden history: %v", err)
	}
	if _, _, err := p.Find(t.Context(), room(private), "a/3",
		chat.Message{}); channeltest.SendClass(err) != mailroom.ClassUnavailable ||
		mailroom.AsFailure(err).RetryAfter != 7*time.Second {
		t.Errorf("a rate limited history: %v", err)
	}
	if caps := fx.Capabilities(); caps.DedupWindow != 2*time.Minute {
		t.Errorf("DedupWindow is %s", caps.DedupWindow)
	}

	dc2 := discordtest.New(t) // a new process, and histories with nonces
	dc2.ShowNonces()
	dev := dc2.Channel("dev")
	old := newRecorder(t, dc2).Start()
	sent, err := old.AwaitConnected().Send(t.Context(), room(dev), chat.Message{Text: "old"}, "b/1")
	if err != nil {
		t.Fatal(err)
	}
	old.Stop()
	id, found, err := newRecorder(t, dc2).Start().AwaitConnected().Find(t.Context(), room(dev), "b/1",
		chat.Message{Text: "old"})
	if id != sent || !found || err != nil {
		t.Errorf("Find: %q, %t, %v, want %s", id, found, err, sent)
	}
}

func TestRateLimitIsObeyedBeforeItIsHit(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	dev, ops := dc.Channel("dev"), dc.Channel("ops")
	p := newRecorder(t, dc).Start().AwaitConnected()
	send := func(c *discordtest.Channel) error {
		_, err := p.Send(t.Context(), room(c), chat.Message{Text: "x"}, "")
		return err
	}
	waits := func(name string, err error, want mailroom.Class, least, most time.Duration) {
		t.Helper()
		if after := mailroom.AsFailure(err).RetryAfter; channeltest.SendClass(err) != want || after < least || after > most {
			t.Errorf("%s: %s, after %s: %v", name, channeltest.SendClass(err), after, err)
		}
	}
	dc.ExhaustLimit(discordtest.Send, 30*time.Second)
	if err := send(dev); err != nil {
		t.Fatal(err)
	}
	waits("one too many", send(dev), mailroom.ClassUnavailable, 29*time.Second, 31*time.Second)
	if n := len(dc.Calls(discordtest.Send)); n != 1 {
		t.Errorf("%d sends, want none after the limit was used up", n)
	}
	if err := p.Typing(t.Context(), room(dev)); err != nil {
		t.Errorf("typing fails due to the limit of sends: %v", err)
	}
	dc.Limit(ops, 40*time.Second)
	waits("a channel's limit", p.Typing(t.Context(), room(ops)), mailroom.ClassUnavailable, 39*time.Second, 41*time.Second)
	waits("the same again", p.Typing(t.Context(), room(ops)), mailroom.ClassUnavailable, 38*time.Second, 41*time.Second)
	if n := len(dc.Calls(discordtest.Typing)); n != 2 {
		t.Errorf("typing was called %d times", n)
	}
	dc.LimitAll(50 * time.Second)
	third := dc.Channel("third")
	waits("all of it", send(third), channeltest.ClassEverywhere, 49*time.Second, 51*time.Second)
	before := len(dc.Calls(""))
	waits("elsewhere", p.Edit(t.Context(), room(dev), "17", chat.Message{Text: "x"}), channeltest.ClassEverywhere,
		48*time.Second, 51*time.Second)
	if n := len(dc.Calls("")) - before; n != 0 {
		t.Errorf("%d calls during the global limit", n)
	}
}

func TestMessagesOverALimitAreRefused(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	p := newRecorder(t, dc).Start().AwaitConnected()
	to := room(dc.Person("Ann").Private())
	many := slices.Repeat([]chat.Button{{Label: "y", Data: "z"}}, 6)
	for name, buttons := range map[string][]chat.Button{
		"carries too much": {{Label: "y", Data: strings.Repeat("z", 101)}}, "carries nothing": {{Label: "y"}},
		"is one too many": many,
	} {
		if _, err := p.Send(t.Context(), to, chat.Message{Text: "x", Buttons: buttons},
			""); channeltest.SendClass(err) != mailroom.ClassPermanent {
			t.Errorf("a button that %s is %s: %v", name, channeltest.SendClass(err), err)
		}
	}
	if _, err := p.Send(t.Context(), to, chat.Message{Text: strings.Repeat("é", 2001)},
		""); channeltest.SendClass(err) != mailroom.ClassPermanent || !strings.Contains(err.Error(), "INVALID") {
		t.Errorf("a text over the limit is %s: %v", channeltest.SendClass(err), err)
	}
}
