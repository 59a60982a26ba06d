package slack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom"
	"mailroom/channel/slack/slacktest"
)

// logAcks prints after which time each envelope was acknowledged. Slack wants that
// within 3 s, and sends an envelope again after that.
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

// TestEnvelopesAreAcknowledgedDuringASlowDownload: while a file of one person comes slowly,
// everything is acknowledged, another person is answered, and the file arrives whole.
func TestEnvelopesAreAcknowledgedDuringASlowDownload(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	rest := startServer(t, sl, ann, false, func(ctx context.Context, s mailroom.Session) error {
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
	})
	slow := make(chan struct{})
	sl.Fail(slacktest.Download, slacktest.Fault{Hold: slow})
	ann.Sends(ann.Private(), "see", slacktest.MessageOptions{File: "notes.txt", Content: []byte("what is in it")})
	for i := range 5 {
		ann.Sends(dev, fmt.Sprint(mention, " and ", i))
	}
	sl.WaitFor(t, "everything acknowledged while the file comes", func() bool { return sl.Pending() == 0 })
	sl.WaitFor(t, "all others answered while the file comes", func() bool { return len(dev.Texts()) == 5 })
	if got := ann.Private().Texts(); len(got) > 0 {
		t.Errorf("what has the file was answered without it: %q", got)
	}
	close(slow)
	sl.WaitFor(t, "the answer to what has the file", func() bool { return strings.Contains(strings.Join(ann.Private().Texts(), ""), "what is in it") })
	rest()
	logAcks(t, sl)
}

// TestEnvelopesAreAcknowledgedDuringASlowHistory: while the history of one room comes
// slowly, what is said there and elsewhere is acknowledged. What is said elsewhere is
// taken; what is said there is taken after the history, in order.
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
	w := newFixture(t, sl).startAt(fmt.Sprintf(`{%q:%q}`, ann.Private().ID, first)).start()
	w.waitConnected()
	sl.WaitFor(t, "the history asked for", func() bool { return len(sl.Calls("conversations.history")) == 1 })
	for i := range 5 {
		ann.Sends(ann.Private(), fmt.Sprint("live ", i))
		bob.Sends(bob.Private(), fmt.Sprint("bob ", i))
	}
	sl.WaitFor(t, "everything acknowledged while the history comes", func() bool { return sl.Pending() == 0 })
	if got := w.texts(); got != "bob 0, bob 1, bob 2, bob 3, bob 4" {
		t.Errorf("while the history comes, taken was %q", got)
	}
	for _, e := range w.recorded() { // a crash now: the history is read again, with what was acknowledged
		if !strings.Contains(e.Position, fmt.Sprintf("%q:%q", ann.Private().ID, first)) {
			t.Errorf("the position has passed over what was not taken: %s", e.Position)
		}
	}
	close(slow)
	w.waitEvents(12)
	if got := w.texts(); !strings.HasSuffix(got, "bob 4, missed one, missed two, live 0, live 1, live 2, live 3, live 4") {
		t.Errorf("taken was %q", got)
	}
	logAcks(t, sl)
}

// TestDeferredMessageSurvivesACrash: the process ends while a
// history comes, after it has acknowledged a message that waits for it.
func TestDeferredMessageSurvivesACrash(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	first := ann.Sends(ann.Private(), "before")
	ann.Sends(ann.Private(), "missed")
	sl.DropPending()
	sl.Fail("conversations.history", slacktest.Fault{Hold: make(chan struct{})})
	at := fmt.Sprintf(`{%q:%q}`, ann.Private().ID, first)
	one := newFixture(t, sl).startAt(at).start()
	one.waitConnected()
	sl.WaitFor(t, "the history asked for", func() bool { return len(sl.Calls("conversations.history")) == 1 })
	ann.Sends(ann.Private(), "live")
	sl.WaitFor(t, "it acknowledged", func() bool { return len(sl.Acks()) == 1 && sl.Pending() == 0 })
	if got := one.recorded(); len(got) > 0 {
		t.Errorf("taken was %+v", got)
	}
	one.crash()
	two := newFixture(t, sl).startAt(at).start()
	two.waitConnected()
	two.waitEvents(2)
	if got := two.texts(); got != "missed, live" {
		t.Errorf("after the crash taken was %q", got)
	}
}

// TestFailedHistoryDoesNotAdvanceThePosition: what has waited for it is taken all the same, and
// what it would have told is read later.
func TestFailedHistoryDoesNotAdvanceThePosition(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	first := ann.Sends(ann.Private(), "before")
	ann.Sends(ann.Private(), "missed")
	sl.DropPending()
	slow := make(chan struct{})
	sl.Fail("conversations.history", slacktest.Fault{Hold: slow, Error: "internal_error"})
	at := fmt.Sprintf(`{%q:%q}`, ann.Private().ID, first)
	one := newFixture(t, sl).startAt(at).start()
	one.waitConnected()
	sl.WaitFor(t, "the history asked for", func() bool { return len(sl.Calls("conversations.history")) == 1 })
	ann.Sends(ann.Private(), "live")
	sl.WaitFor(t, "it acknowledged", func() bool { return len(sl.Acks()) == 1 && sl.Pending() == 0 })
	close(slow)
	one.waitEvents(1)
	saved := one.recorded()[0].Position
	if !strings.Contains(saved, fmt.Sprintf("%q:%q", ann.Private().ID, first)) {
		t.Errorf("the position has passed over what was not read: %s", saved)
	}
	one.crash()
	two := newFixture(t, sl).startAt(saved).start()
	two.waitConnected()
	two.waitEvents(2)
	if got := two.texts(); got != "missed, live" {
		t.Errorf("after the crash taken was %q", got)
	}
}

// TestThreadIsSavedWithItsRootMessage: a crash after a message of a history was
// taken, and before its replies were read, loses none of them.
func TestThreadIsSavedWithItsRootMessage(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	first := ann.Sends(dev, "before")
	root := ann.Sends(dev, "a thread, not to the bot")
	ann.Sends(dev, mention+" but this is", slacktest.MessageOptions{Thread: root})
	sl.DropPending()
	sl.Fail("conversations.replies", slacktest.Fault{Hold: make(chan struct{})})
	one := newFixture(t, sl).startAt(fmt.Sprintf(`{%q:%q}`, dev.ID, first)).start()
	one.waitConnected()
	saved := one.waitEvents(1)[0].Position
	one.crash()
	two := newFixture(t, sl).startAt(saved).start()
	two.waitConnected()
	if got := two.waitEvents(1); got[0].Text != "@mailroom but this is" {
		t.Errorf("after the crash taken was %+v", got)
	}
}

// TestEnvelopesAreAcknowledgedDuringSlowNameLookups: a name that does not come costs an envelope
// a second, and not one second for each envelope before it.
func TestEnvelopesAreAcknowledgedDuringSlowNameLookups(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	slow := make(chan struct{})
	w := newFixture(t, sl).start()
	w.waitConnected()
	const people = 5
	for range people {
		sl.Fail("users.info", slacktest.Fault{Hold: slow})
	}
	for i := range people {
		p := sl.Person(fmt.Sprint("Person", i))
		p.Sends(p.Private(), "hello")
	}
	got := w.waitEvents(people)
	for _, e := range got {
		if e.User.Name != "" {
			t.Errorf("the name came too late: %+v", e.User)
		}
	}
	close(slow)
	logAcks(t, sl)
}
