package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/internal/display"
)

// printEvents prints events and returns the output.
func printEvents(t *testing.T, output command.Format, events ...client.Event) (stdout, stderr string, p *replyPrinter) {
	t.Helper()
	var out, talk bytes.Buffer
	p = newReplyPrinter(&command.Console{Stdout: &out, Stderr: &talk}, output)
	for _, ev := range events {
		if err := p.printEvent(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	return out.String(), talk.String(), p
}

func delta(attempt int, message string, offset int, text string) client.Event {
	return client.Event{Delta: &entry.Delta{Run: "r", Attempt: attempt, Message: message, Offset: offset, Channel: "text",
		Text: text}}
}

func event(t *testing.T, seq int64, kind string, attempt int, body any) client.Event {
	t.Helper()
	e, err := entry.New("t", seq, kind, "r", attempt, time.Unix(1000, 0).UTC(), body)
	if err != nil {
		t.Fatal(err)
	}
	return client.Event{Entry: &e}
}

func reply(t *testing.T, seq int64, attempt int, id, text string, partial bool) client.Event {
	t.Helper()
	return event(t, seq, entry.KindMessage, attempt, mailroom.Message{
		ID: id, Role: mailroom.RoleAssistant, Text: text, Parts: mailroom.Text(text), Visibility: mailroom.VisibleAll,
		Partial: partial,
	})
}

func internalMessage(t *testing.T, seq int64, id, text string) client.Event {
	t.Helper()
	return event(t, seq, entry.KindMessage, 1, mailroom.Message{
		ID: id, Role: mailroom.RoleAssistant, Text: text, Parts: mailroom.Text(text), Visibility: mailroom.VisibleInternal,
	})
}

func TestReplyIsPrintedOnceForAnyOrderOfEvents(t *testing.T) {
	for name, test := range map[string]struct {
		events []client.Event
		want   string
	}{
		"only as an entry": {
			[]client.Event{reply(t, 1, 1, "m", "hello", false)}, "hello\n",
		},
		"internal messages, as an entry and as live text": {
			[]client.Event{internalMessage(t, 1, "a", "let me look"), delta(1, "b", 0, "and "),
				internalMessage(t, 2, "b", "and there"), reply(t, 3, 1, "m", "found", false)},
			"let me look\nand there\nfound\n",
		},
		"as live text, then as an entry": {
			[]client.Event{delta(1, "m", 0, "hel"), delta(1, "m", 3, "lo"), reply(t, 1, 1, "m", "hello", false)}, "hello\n",
		},
		"an entry with more text than the deltas": {
			[]client.Event{delta(1, "m", 0, "hel"), reply(t, 1, 1, "m", "hello", false)}, "hello\n",
		},
		"the text so far again after a lost connection": {
			[]client.Event{delta(1, "m", 0, "grüße"), delta(1, "m", 0, "grüße, al"), delta(1, "m", 7, ", alle"),
				reply(t, 1, 1, "m", "grüße, alle", false)}, "grüße, alle\n",
		},
		"a repeat": {
			[]client.Event{delta(1, "m", 0, "hello"), delta(1, "m", 1, "ell")}, "hello\n",
		},
		"two messages": {
			[]client.Event{delta(1, "m", 0, "one"), reply(t, 1, 1, "m", "one", false), delta(1, "n", 0, "two"),
				reply(t, 2, 1, "n", "two", false)}, "one\ntwo\n",
		},
		"a later attempt starts over": {
			[]client.Event{delta(1, "m", 0, "one tw"), reply(t, 1, 1, "m", "one ", true), delta(2, "n", 0, "one two"),
				reply(t, 3, 2, "n", "one two", false)}, "one tw\none two\n",
		},
		"a later attempt after one without an entry of its end": {
			[]client.Event{delta(1, "m", 0, "one tw"), delta(2, "m", 0, "one two"), reply(t, 3, 2, "m", "one two", false)},
			"one tw\none two\n",
		},
		"text with a final line break": {
			[]client.Event{delta(1, "m", 0, "one\n"), reply(t, 1, 1, "m", "one\n", false)}, "one\n",
		},
		"thinking": {
			[]client.Event{{Delta: &entry.Delta{Message: "m", Channel: "thinking", Text: "hm"}}}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, _ := printEvents(t, command.FormatText, test.events...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOtherEventsArePrintedToStderr(t *testing.T) {
	question := mailroom.Message{ID: "u", Role: mailroom.RoleUser, Text: "two\nlines\x1b[2J",
		Visibility: mailroom.VisibleAll}
	hidden := mailroom.Message{ID: "i", Role: mailroom.RoleUser, Text: "not for you", Visibility: mailroom.VisibleInternal}
	stdout, stderr, p := printEvents(t, command.FormatText,
		event(t, 1, entry.KindMessage, 0, question),
		event(t, 2, entry.KindMessage, 1, hidden),
		event(t, 3, entry.KindRescheduled, 1, entry.RunRescheduled{
			Reason: "retry", Attempt: 1, AvailableAt: time.Unix(1000, 250e6).UTC(),
			Error: &mailroom.RunError{Class: mailroom.ClassTransient, Message: "no\nluck"},
		}),
		event(t, 4, entry.KindRescheduled, 1, entry.RunRescheduled{Reason: "gave_way", Attempt: 1, Behind: "s"}),
		reply(t, 4, 2, "m", "half", true),
		event(t, 5, entry.KindFailed, 2,
			entry.RunFailed{Error: mailroom.RunError{Class: mailroom.ClassPermanent, Message: "bad input"}}),
		event(t, 6, entry.KindCancelled, 2, entry.RunStop{Reason: mailroom.ReasonSuperseded}),
		client.Event{Gap: &api.Gap{After: 1, Oldest: 3, Last: 9}},
	)
	if stdout != "half\n" {
		t.Errorf("stdout is %q, want only the reply", stdout)
	}
	want := `user: two lines⟦U+001B⟧[2J
run r: attempt 1 failed: transient: no luck; retrying in 250ms
run r: attempt 1 was put back: another run comes first
(reply incomplete)
run r failed: permanent: bad input
run r cancelled: superseded
entries after 1 are missing; continuing with 3 to 9
`
	if diff := cmp.Diff(want, stderr); diff != "" {
		t.Errorf("stderr (-want +got):\n%s", diff)
	}
	if p.last != mailroom.StatusCancelled {
		t.Errorf("the last run ended as %q, want cancelled", p.last)
	}
}

func TestEntriesAsJSONAreTheBytesOfTheLog(t *testing.T) {
	ev := reply(t, 1, 1, "m", "a < b", false)
	stdout, stderr, _ := printEvents(t, command.FormatJSON, delta(1, "m", 0, "a"), ev)
	if want := fmt.Sprintf("%s\n", ev.Entry.Raw); stdout != want || stderr != "" {
		t.Errorf("stdout %q, stderr %q, want %q and \"\"", stdout, stderr, want)
	}
}

func TestStderrShowsInvisibleCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"rm a\u202etxt.elif":   "rm a⟦U+202E⟧txt.elif",
		"a\x1b]0;x\x07b\u009b": "a⟦U+001B⟧]0;x⟦U+0007⟧b⟦U+009B⟧",
		"שלום\u200f 👩\u200d👧 می\u200cخواهم grüße": "שלום\u200f 👩\u200d👧 می\u200cخواهم grüße",
	} {
		if got := display.Line(text); got != want {
			t.Errorf("%q is in a line as %q, want %q", text, got, want)
		}
		var stderr strings.Builder
		(&command.Console{Stderr: &stderr}).Infof("it asks: %s", text)
		if got := stderr.String(); got != "it asks: "+want+"\n" {
			t.Errorf("%q is talk as %q, want %q", text, got, want)
		}
	}
	// Stdout has exactly the text of the message.
	said := "a\u202eb\x1b[1m"
	if got, _, _ := printEvents(t, command.FormatText, reply(t, 1, 1, "m", said, false)); got != said+"\n" {
		t.Errorf("output to a pipe %q, want %q", got, said)
	}
}
