package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/thread"
)

// logLine is one entry of a test's log. Runs are named by a letter, and messages by the run and their
// seq.
type logLine struct {
	kind    string
	run     string
	attempt int
	body    any
}

func userMessage(run string, text string) logLine {
	return logLine{entry.KindMessage, run, 0, map[string]any{"text": text, "id": "?", "run": run}}
}

func queued(run string, priority int, messages ...string) logLine {
	return logLine{entry.KindQueued, run, 0, entry.RunQueued{Agent: "torture", Priority: priority, Messages: messages}}
}

func started(run string, attempt int, seqs ...int64) logLine {
	return logLine{entry.KindStarted, run, attempt, entry.RunStarted{Messages: seqs}}
}

func lostClaim(run string, attempt int) logLine {
	return logLine{entry.KindRescheduled, run, attempt, entry.RunRescheduled{Reason: "lease_lost", Attempt: attempt}}
}

func reply(run string, attempt int, text string) logLine {
	return logLine{entry.KindMessage, run, attempt, mailroom.Message{ID: fmt.Sprintf("%s.%d-1", run, attempt), Text: text,
		Role: mailroom.RoleAssistant}}
}

func completed(run string, attempt int, text string) logLine {
	body := entry.RunCompleted{}
	if text != "" {
		body.Reply = &text
	}
	return logLine{entry.KindCompleted, run, attempt, body}
}

func effect(run string, attempt int, what, name string) logLine {
	body := entry.EffectEntry{Name: name, Key: run + "/" + name}
	if what == "settled" {
		body.Result = json.RawMessage(`"done"`)
	}
	return logLine{"effect." + what, run, attempt, body}
}

func asked(run string, attempt int, name string) logLine {
	return logLine{entry.KindTicketOpened, run, attempt, mailroom.Ticket{
		ID: thread.TicketID(run, name), Run: run, Name: name, State: mailroom.TicketOpen,
	}}
}

func decision(run string, attempt int, name string, v mailroom.Verdict) logLine {
	return logLine{entry.KindTicketDecided, run, attempt,
		entry.TicketDecision{Ticket: thread.TicketID(run, name), Decision: v}}
}

// check makes a log of the lines, one millisecond apart, and returns the violations found in it,
// including unfinished runs if rest is set.
func check(t *testing.T, rest bool, lines ...logLine) string {
	t.Helper()
	s := newThreadState("t")
	var found []string
	for i, l := range lines {
		seq := int64(i + 1)
		if body, ok := l.body.(map[string]any); ok && body["id"] == "?" {
			body["id"], body["seq"] = id(l.run, seq), seq
		}
		if body, ok := l.body.(mailroom.Message); ok {
			body.Seq, body.Run = seq, l.run
			l.body = body
		}
		e, err := entry.New("t", seq, l.kind, l.run, l.attempt, time.UnixMilli(1000+seq).UTC(), l.body)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, s.add(e)...)
	}
	if rest {
		found = append(found, s.unfinished()...)
	}
	return strings.Join(found, "\n")
}

func id(run string, seq int64) string { return run + "." + string(rune('0'+seq)) }

// turn is a run with the two entries of its submit.
func turn(more ...logLine) []logLine {
	return append([]logLine{userMessage("a", "hello"), queued("a", 128, "a.1")}, more...)
}

func TestAFoldFindsViolations(t *testing.T) {
	stop := logLine{entry.KindStop, "a", 1, entry.RunStop{Reason: mailroom.ReasonCancelled}}
	cancel := logLine{entry.KindCancelled, "a", 1, entry.RunStop{Reason: mailroom.ReasonCancelled}}
	step := func(attempt int) logLine { return logLine{entry.KindStep, "a", attempt, entry.StepNamed{Name: "s"}} }
	wait := logLine{entry.KindWaiting, "a", 1, entry.RunWaiting{}}
	two := []logLine{userMessage("a", "1"), queued("a", 128, "a.1"), userMessage("b", "2"), queued("b", 128, "b.3")}
	steered := []logLine{userMessage("a", "1"), queued("a", 128, "a.1"), started("a", 1, 1),
		{entry.KindMessage, "a", 0, map[string]any{"id": "b.4", "seq": 4, "run": "a", "text": "and"}}}
	for _, x := range []struct {
		name  string
		lines []logLine
		want  string
	}{
		{"a turn", turn(started("a", 1, 1), reply("a", 1, "hi"), completed("a", 1, "hi")), ""},
		{"a crashed run", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), completed("a", 2, "")), ""},
		{"a stop", turn(started("a", 1, 1), stop, cancel), ""},
		{"another reply", turn(started("a", 1, 1), reply("a", 1, "hi"), completed("a", 1, "ho")), "its reply is"},
		{"a message of a zombie", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), logLine{entry.KindMessage, "a", 2, mailroom.Message{ID: "a.1-1", Text: "hi"}}), "written by another attempt"},
		{"a step of a zombie", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), logLine{"x.by", "a", 2, map[string]int{"attempt": 1}}), "attempt 1 wrote this"},
		{"an unexpected error", turn(started("a", 1, 1), logLine{entry.KindRescheduled, "a", 1, entry.RunRescheduled{Reason: "retry", Error: &mailroom.RunError{Message: "step 1 does not follow"}}}), "unexpected agent error"},
		{"an attempt left out", turn(started("a", 2, 1)), "has attempt 2, which should be 1"},
		{"a stale step", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), step(1)), "has attempt 1, which should be 2"},
		{"a step without a claim", turn(started("a", 1, 1), lostClaim("a", 1), step(1)), "while the run is between attempts"},
		{"an end twice", turn(started("a", 1, 1), completed("a", 1, ""), completed("a", 1, "")), "while the run is completed"},
		{"a cancel of a running run", turn(started("a", 1, 1), cancel), "which a worker holds, without a request to stop"},
		{"going on after a stop", turn(started("a", 1, 1), stop, lostClaim("a", 1)), "reschedules run a, which was asked to stop"},
		{"out of order", append(two, started("b", 1, 3)), "starts run b before run a"},
		{"two at a time", append(two, started("a", 1, 1), started("b", 1, 3)), "before the end of run a"},
		{"by priority", []logLine{userMessage("a", "1"), queued("a", 128, "a.1"), userMessage("b", "2"), queued("b", 0, "b.3"), started("a", 1, 1)}, "starts run a before run b"},
		{"its messages left out", turn(started("a", 1)), "its messages are [1]"},
		{"uncharged crashes", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), lostClaim("a", 2), started("a", 3), lostClaim("a", 3)), "continues after 3"},
		{"a step between crashes", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), step(2), lostClaim("a", 2), started("a", 3), lostClaim("a", 3), started("a", 4), completed("a", 4, "")), ""},
		{"an effect", turn(started("a", 1, 1), effect("a", 1, "intended", "once"), effect("a", 1, "settled", "once"), completed("a", 1, "")), ""},
		{"an effect called again", turn(started("a", 1, 1), effect("a", 1, "intended", "once"), lostClaim("a", 1), started("a", 2), effect("a", 2, "intended", "once")), "called again without an entry"},
		{"an unknown effect called again", turn(started("a", 1, 1), effect("a", 1, "intended", "once"), effect("a", 1, "unknown", "once"), effect("a", 1, "intended", "once")), "without approval"},
		{"by leave", turn(started("a", 1, 1), effect("a", 1, "intended", "once"), effect("a", 1, "unknown", "once"), asked("a", 1, "effect:once#1"), decision("a", 1, "effect:once#1", mailroom.VerdictApprove), effect("a", 1, "intended", "once"), effect("a", 1, "settled", "once"), completed("a", 1, "")), ""},
		{"a harmless effect called again", turn(started("a", 1, 1), effect("a", 1, "intended", "sure"), effect("a", 1, "unknown", "sure"), effect("a", 1, "intended", "sure"), effect("a", 1, "settled", "sure"), completed("a", 1, "")), ""},
		{"an effect settled twice", turn(started("a", 1, 1), effect("a", 1, "intended", "sure"), effect("a", 1, "settled", "sure"), effect("a", 1, "intended", "sure")), "had already settled"},
		{"a decision spent twice", turn(started("a", 1, 1), asked("a", 1, "q"), wait, decision("a", 1, "q", mailroom.VerdictDeny), decision("a", 1, "q", mailroom.VerdictApprove)), "is already"},
		{"a decision of nothing", turn(started("a", 1, 1), decision("a", 1, "q", mailroom.VerdictDeny)), "never opened"},
		{"a decision after the end", turn(started("a", 1, 1), asked("a", 1, "q"), completed("a", 1, ""), decision("a", 1, "q", mailroom.VerdictDeny)), "which is already void"},
		{"steered and read", append(steered, logLine{entry.KindMessageRead, "a", 1, entry.MessageRef{Message: "b.4"}}, completed("a", 1, "")), ""},
		{"steered and dropped", append(steered, completed("a", 1, "")), "neither read nor became a run"},
		{"steered and both", append(steered, logLine{entry.KindMessageRead, "a", 1, entry.MessageRef{Message: "b.4"}}, completed("a", 1, ""), queued("b", 128, "b.4")), "makes a run of message b.4, which was already read"},
		{"an edit of a read message", turn(started("a", 1, 1), logLine{entry.KindEdited, "a", 1, entry.Edited{Message: "a.1", Text: "x"}}), "was already read"},
		{"steered to a run that is not current", append(two, logLine{entry.KindMessage, "b", 0, map[string]any{"id": "c.5", "seq": 5, "run": "b"}}), "entry 5 steers message c.5 to run b, which is queued"},
		{"a message for a started run", turn(started("a", 1, 1), userMessage("a", "more")), "entry 4 adds message a.4 to run a, which is running"},
		{"queued without its message", []logLine{userMessage("a", "1"), queued("a", 128)}, "entry 2 queues run a without its message at entry 1"},
		{"read by a start, but never steered", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2, 1)), "reads entry 1, which is no unread message of run a"},
		{"an expiry of a ticket without one", turn(started("a", 1, 1), asked("a", 1, "q"), wait,
			logLine{entry.KindTicketExpired, "a", 1, entry.TicketRef{Ticket: thread.TicketID("a", "q")}}), "expires at"},
		{"cancelled and never queued", []logLine{cancel}, "cancels run a, which was never queued"},
		{"never ended", turn(started("a", 1, 1)), "never ended"},
		{"an entry of an unknown run", []logLine{started("a", 1)}, "comes while the run is not queued yet"},
	} {
		t.Run(x.name, func(t *testing.T) {
			got := check(t, true, x.lines...)
			if x.want == "" && got != "" || !strings.Contains(got, x.want) {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

func TestAFoldFindsGapsAndRepeats(t *testing.T) {
	for _, seqs := range [][]int64{{1, 3}, {1, 1}, {2}} {
		s := newThreadState("t")
		var found []string
		for _, seq := range seqs {
			body := mailroom.Message{ID: "a.1", Seq: seq, Run: "a"}
			e, err := entry.New("t", seq, entry.KindMessage, "a", 0, time.UnixMilli(seq), body)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, s.add(e)...)
		}
		if len(found) == 0 {
			t.Errorf("entries %v: nothing found", seqs)
		}
	}
}

func TestAScheduledRunEntersTheQueueWhenItsTimeComes(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(1000 + ms).UTC() }
	held := logLine{entry.KindQueued, "a", 0, entry.RunQueued{Priority: 128, AvailableAt: at(5),
		Messages: []string{"a.1"}}}
	before := []logLine{userMessage("a", "1"), held, userMessage("b", "2"), queued("b", 128, "b.3")}
	if got := check(t, false, append(before, started("b", 1, 3))...); got != "" {
		t.Errorf("a run starts while the previous one is scheduled: %s", got)
	}
	if got := check(t, false, append(before, lineNothing(), lineNothing(), started("a", 1, 1))...); !strings.Contains(got,
		"starts before run b") {
		t.Errorf("a run submitted before the time of a scheduled one starts first: %q", got)
	}
	steered := []logLine{
		userMessage("x", "1"), queued("x", 128, "x.1"), started("x", 1, 1),
		{entry.KindMessage, "x", 0, mailroom.Message{ID: "s.4", Role: mailroom.RoleUser, Text: "steered"}},
		userMessage("a", "5"),
		{entry.KindQueued, "a", 0, entry.RunQueued{Priority: 128, AvailableAt: at(7), Messages: []string{"a.5"}}},
		{entry.KindCompleted, "x", 1, entry.RunCompleted{}}, queued("s", 128, "s.4"), lineNothing(), started("s", 1, 4),
	}
	if got := check(t, false, steered...); got != "" {
		t.Errorf("the run of a steered message has the place of its submit: %s", got)
	}
	if got := check(t, false, userMessage("a", "1"), held, started("a", 1, 1)); !strings.Contains(got, "before its time") {
		t.Errorf("a scheduled run starts early: %q", got)
	}
}

// lineNothing returns an entry without effect, which lets a moment pass.
func lineNothing() logLine { return userMessage("z", "never queued") }
