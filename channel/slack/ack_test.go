package slack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/slack/slacktest"
)

// logAcks logs how long each acknowledgement took. Slack redelivers an envelope after 3 s.
func logAcks(t *testing.T, sl *slacktest.Platform) {
	t.Helper()
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "ENVELOPE\tACKNOWLEDGED AFTER\tSENT")
	for _, a := range sl.Acks() {
		what := a.Kind
		if event, ok := a.Payload["event"].(map[string]any); ok {
			what = fmt.Sprintf("%v: %.40q", event["type"], fmt.Sprint(event["text"]))
		}
		fmt.Fprintf(tab, "%s\t%.3f s\t%d times\n", what, a.After.Seconds(), a.Attempts)
	}
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// TestEnvelopesAreAcknowledgedDuringASlowDownload checks that during the slow download of one
// person's file all envelopes are acknowledged, others get replies, and the file arrives whole.
func TestEnvelopesAreAcknowledgedDuringASlowDownload(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	server := channeltest.NewServer(t, newPlatform(t, sl))
	server.Options.Access = chat.AccessPolicy{Admins: []string{ann.ID}}
	server.Agent = func(ctx context.Context, s mailroom.Session) error {
		input, err := s.Input(ctx)
		if err != nil {
			return err
		}
		var all []string
		for _, m := range input {
			for _, p := range m.Parts {
				all = append(all, p.Text)
			}
		}
		return s.Stream(ctx, "read: "+strings.Join(all, " + "))
	}
	server.Start()
	slow := make(chan struct{})
	sl.Fail(slacktest.Download, slacktest.Fault{Hold: slow})
	ann.Sends(ann.Private(), "see", slacktest.MessageOptions{File: "notes.txt", Content: []byte("what is in it")})
	for i := range 5 {
		ann.Sends(dev, fmt.Sprint(mention, " and ", i))
	}
	sl.WaitFor(t, "the acknowledgement of everything during the download", func() bool { return sl.Pending() == 0 })
	sl.WaitFor(t, "the replies to the others during the download", func() bool { return len(dev.Texts()) == 5 })
	if got := ann.Private().Texts(); len(got) > 0 {
		t.Errorf("replies before the download: %q", got)
	}
	close(slow)
	sl.WaitFor(t, "the reply to the file", func() bool {
		return strings.Contains(strings.Join(ann.Private().Texts(), ""), "what is in it")
	})
	server.AwaitSettled()
	logAcks(t, sl)
}

// TestEnvelopesAreAcknowledgedDuringASlowHistory checks that during a slow history read all
// envelopes are acknowledged, messages of other rooms are handled, and messages of the room are
// handled after the history, in order.
func TestEnvelopesAreAcknowledgedDuringASlowHistory(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, bob := sl.Person("Ann"), sl.Person("Bob")
	first := ann.Sends(ann.Private(), "before")
	ann.Sends(ann.Private(), "missed one")
	ann.Sends(ann.Private(), "missed two")
	sl.DropPending()
	slow := make(chan struct{})
	sl.Fail("conversations.history", slacktest.Fault{Hold: slow})
	fx := resumeAt(t, sl, fmt.Sprintf(`{%q:%q}`, ann.Private().ID, first))
	fx.AwaitConnected()
	sl.WaitFor(t, "the request for the history", func() bool { return len(sl.Calls("conversations.history")) >= 1 })
	for i := range 5 {
		ann.Sends(ann.Private(), fmt.Sprint("live ", i))
		bob.Sends(bob.Private(), fmt.Sprint("bob ", i))
	}
	sl.WaitFor(t, "the acknowledgement of everything during the history read", func() bool { return sl.Pending() == 0 })
	if got := fx.Texts(); got != "bob 0, bob 1, bob 2, bob 3, bob 4" {
		t.Errorf("during the history read, recorded %q", got)
	}
	// after a crash now, the history is read again and contains the acknowledged messages
	for _, e := range fx.Recorded() {
		if !strings.Contains(e.Position, fmt.Sprintf("%q:%q", ann.Private().ID, first)) {
			t.Errorf("the position is past unhandled messages: %s", e.Position)
		}
	}
	close(slow)
	fx.AwaitEvents(12)
	if got := fx.Texts(); !strings.HasSuffix(got,
		"bob 4, missed one, missed two, live 0, live 1, live 2, live 3, live 4") {
		t.Errorf("recorded %q", got)
	}
	logAcks(t, sl)
}

// TestDeferredMessageSurvivesACrash ends the process while a history is read, after a message
// that waits for it was acknowledged.
func TestDeferredMessageSurvivesACrash(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	first := ann.Sends(ann.Private(), "before")
	ann.Sends(ann.Private(), "missed")
	sl.DropPending()
	sl.Fail("conversations.history", slacktest.Fault{Hold: make(chan struct{})})
	at := fmt.Sprintf(`{%q:%q}`, ann.Private().ID, first)
	one := resumeAt(t, sl, at)
	one.AwaitConnected()
	sl.WaitFor(t, "the request for the history", func() bool { return len(sl.Calls("conversations.history")) >= 1 })
	ann.Sends(ann.Private(), "live")
	sl.WaitFor(t, "the acknowledgement of it", func() bool { return len(sl.Acks()) == 1 && sl.Pending() == 0 })
	if got := one.Recorded(); len(got) > 0 {
		t.Errorf("recorded %+v", got)
	}
	one.Crash()
	two := resumeAt(t, sl, at)
	two.AwaitConnected()
	two.AwaitEvents(2)
	if got := two.Texts(); got != "missed, live" {
		t.Errorf("after the crash recorded %q", got)
	}
}

// TestFailedHistoryDoesNotAdvanceThePosition checks that deferred messages are handled when the
// history fails, and that the history is read later.
func TestFailedHistoryDoesNotAdvanceThePosition(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	first := ann.Sends(ann.Private(), "before")
	ann.Sends(ann.Private(), "missed")
	sl.DropPending()
	slow := make(chan struct{})
	sl.Fail("conversations.history", slacktest.Fault{Hold: slow, Code: "internal_error"})
	at := fmt.Sprintf(`{%q:%q}`, ann.Private().ID, first)
	one := resumeAt(t, sl, at)
	one.AwaitConnected()
	sl.WaitFor(t, "the request for the history", func() bool { return len(sl.Calls("conversations.history")) >= 1 })
	ann.Sends(ann.Private(), "live")
	sl.WaitFor(t, "the acknowledgement of it", func() bool { return len(sl.Acks()) == 1 && sl.Pending() == 0 })
	close(slow)
	one.AwaitEvents(1)
	saved := one.Recorded()[0].Position
	if !strings.Contains(saved, fmt.Sprintf("%q:%q", ann.Private().ID, first)) {
		t.Errorf("the position is past an unread history: %s", saved)
	}
	one.Crash()
	two := resumeAt(t, sl, saved)
	two.AwaitConnected()
	two.AwaitEvents(2)
	if got := two.Texts(); got != "missed, live" {
		t.Errorf("after the crash recorded %q", got)
	}
}

// TestThreadIsSavedWithItsRootMessage ends the process after a root message of a history was
// handled and before its replies were read. No reply is lost.
func TestThreadIsSavedWithItsRootMessage(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	first := ann.Sends(dev, "before")
	root := ann.Sends(dev, "a thread, not to the bot")
	ann.Sends(dev, mention+" but this is", slacktest.MessageOptions{Thread: root})
	sl.DropPending()
	sl.Fail("conversations.replies", slacktest.Fault{Hold: make(chan struct{})})
	one := resumeAt(t, sl, fmt.Sprintf(`{%q:%q}`, dev.ID, first))
	one.AwaitConnected()
	saved := one.AwaitEvents(1)[0].Position
	one.Crash()
	two := resumeAt(t, sl, saved)
	two.AwaitConnected()
	if got := two.AwaitEvents(1); got[0].Text != "@mailroom but this is" {
		t.Errorf("after the crash recorded %+v", got)
	}
}

// TestEnvelopesAreAcknowledgedDuringSlowNameLookups checks that slow lookups delay each
// envelope by a second, and do not add up.
func TestEnvelopesAreAcknowledgedDuringSlowNameLookups(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	slow := make(chan struct{})
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	const people = 5
	for range people {
		sl.Fail("users.info", slacktest.Fault{Hold: slow})
	}
	for i := range people {
		p := sl.Person(fmt.Sprint("Person", i))
		p.Sends(p.Private(), "hello")
	}
	got := fx.AwaitEvents(people)
	for _, e := range got {
		if e.User.Name != "" {
			t.Errorf("user after the lookup's timeout: %+v", e.User)
		}
	}
	close(slow)
	logAcks(t, sl)
}
