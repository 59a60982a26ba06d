package fold_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/thread"
	"mailroom/torture/internal/fold"
)

// line is one entry of a test's log. Runs are named by a letter, and messages by the run and their
// seq.
type line struct {
	kind    string
	run     string
	attempt int
	body    any
}

func userMessage(run string, text string) line {
	return line{entry.KindMessage, run, 0, map[string]any{"text": text, "id": "?", "run": run}}
}

func queued(run string, priority int, messages ...string) line {
	return line{entry.KindQueued, run, 0, entry.RunQueued{Agent: "torture", Priority: priority, Messages: messages}}
}

func started(run string, attempt int, seqs ...int64) line {
	return line{entry.KindStarted, run, attempt, entry.RunStarted{Messages: seqs}}
}

func lostClaim(run string, attempt int) line {
	return line{entry.KindRescheduled, run, attempt, entry.RunRescheduled{Reason: "lease_lost", Attempt: attempt}}
}

func reply(run string, attempt int, text string) line {
	return line{entry.KindMessage, run, attempt, mailroom.Message{ID: fmt.Sprintf("%s.%d-1", run, attempt), Text: text, Role: mailroom.RoleAssistant}}
}

func completed(run string, attempt int, text string) line {
	body := entry.RunCompleted{}
	if text != "" {
		body.Reply = &text
	}
	return line{entry.KindCompleted, run, attempt, body}
}

func effect(run string, attempt int, what, name string) line {
	body := entry.EffectEntry{Name: name, Key: run + "/" + name}
	if what == "settled" {
		body.Result = json.RawMessage(`"done"`)
	}
	return line{"effect." + what, run, attempt, body}
}

func asked(run string, attempt int, name string) line {
	return line{entry.KindTicketOpened, run, attempt, mailroom.Ticket{
		ID: thread.TicketID(run, name), Run: run, Name: name, State: mailroom.TicketOpen,
	}}
}

func decision(run string, attempt int, name string, v mailroom.Verdict) line {
	return line{entry.KindTicketDecided, run, attempt, entry.TicketDecision{Ticket: thread.TicketID(run, name), Decision: v}}
}

// check makes a log of the lines, one millisecond apart, and returns the violations found in it,
// including unfinished runs if rest is set.
func check(t *testing.T, rest bool, lines ...line) string {
	t.Helper()
	s := fold.New("t", func(effect string) bool { return strings.HasPrefix(effect, "once") })
	var found []string
	for i, l := range lines {
		seq := int64(i + 1)
		if body, ok := l.body.(map[string]any); ok && body["id"] == "?" {
			body["id"], body["seq"] = id(l.run, seq), seq
		}
		e, err := entry.New("t", seq, l.kind, l.run, l.attempt, time.UnixMilli(1000+seq).UTC(), l.body)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, s.Add(e)...)
	}
	if rest {
		found = append(found, s.Unfinished()...)
	}
	return strings.Join(found, "\n")
}

func id(run string, seq int64) string { return run + "." + string(rune('0'+seq)) }

// turn is a run with the two entries of its submit.
func turn(more ...line) []line {
	return append([]line{userMessage("a", "hello"), queued("a", 128, "a.1")}, more...)
}

func TestAFoldFindsViolations(t *testing.T) {
	stop := line{entry.KindStop, "a", 1, entry.RunStop{Reason: mailroom.ReasonCancelled}}
	cancel := line{entry.KindCancelled, "a", 1, entry.RunStop{Reason: mailroom.ReasonCancelled}}
	step := func(attempt int) line { return line{entry.KindStep, "a", attempt, entry.StepNamed{Name: "s"}} }
	wait := line{entry.KindWaiting, "a", 1, entry.RunWaiting{}}
	two := []line{userMessage("a", "1"), queued("a", 128, "a.1"), userMessage("b", "2"), queued("b", 128, "b.3")}
	steered := []line{userMessage("a", "1"), queued("a", 128, "a.1"), started("a", 1, 1),
		{entry.KindMessage, "a", 0, map[string]any{"id": "b.4", "seq": 4, "run": "a", "text": "and"}}}
	for _, x := range []struct {
		name  string
		lines []line
		want  string
	}{
		{"a turn", turn(started("a", 1, 1), reply("a", 1, "hi"), completed("a", 1, "hi")), ""},
		{"a turn that crashed", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), completed("a", 2, "")), ""},
		{"a stop", turn(started("a", 1, 1), stop, cancel), ""},
		{"another reply", turn(started("a", 1, 1), reply("a", 1, "hi"), completed("a", 1, "ho")), "its reply is"},
		{"a message of a zombie", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), line{entry.KindMessage, "a", 2, mailroom.Message{ID: "a.1-1", Text: "hi"}}), "written by another attempt"},
		{"a step of a zombie", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), line{"x.by", "a", 2, map[string]int{"attempt": 1}}), "attempt 1 wrote this"},
		{"an unexpected error", turn(started("a", 1, 1), line{entry.KindRescheduled, "a", 1, entry.RunRescheduled{Reason: "retry", Error: &mailroom.RunError{Message: "step 1 does not follow"}}}), "unexpected agent error"},
		{"an attempt left out", turn(started("a", 2, 1)), "follows attempt 0"},
		{"a stale step", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), step(1)), "written under attempt 1"},
		{"a step without a claim", turn(started("a", 1, 1), lostClaim("a", 1), step(1)), "while the run is queued"},
		{"an end twice", turn(started("a", 1, 1), completed("a", 1, ""), completed("a", 1, "")), "while the run is completed"},
		{"a cancel of what runs", turn(started("a", 1, 1), cancel), "there is no stop request"},
		{"going on after a stop", turn(started("a", 1, 1), stop, lostClaim("a", 1)), "asked to stop but continues"},
		{"out of order", append(two, started("b", 1, 3)), "starts before run a"},
		{"two at a time", append(two, started("a", 1, 1), started("b", 1, 3)), "before the end of run a"},
		{"by priority", []line{userMessage("a", "1"), queued("a", 128, "a.1"), userMessage("b", "2"), queued("b", 0, "b.3"), started("a", 1, 1)}, "starts before run b"},
		{"its messages left out", turn(started("a", 1)), "its messages are [1]"},
		{"crashes that do not count", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), lostClaim("a", 2), started("a", 3), lostClaim("a", 3)), "continues after 3"},
		{"a step between crashes", turn(started("a", 1, 1), lostClaim("a", 1), started("a", 2), step(2), lostClaim("a", 2), started("a", 3), lostClaim("a", 3), started("a", 4), completed("a", 4, "")), ""},
		{"an effect", turn(started("a", 1, 1), effect("a", 1, "intended", "once"), effect("a", 1, "settled", "once"), completed("a", 1, "")), ""},
		{"an effect called again", turn(started("a", 1, 1), effect("a", 1, "intended", "once"), lostClaim("a", 1), started("a", 2), effect("a", 2, "intended", "once")), "called again without an entry"},
		{"an unknown effect called again", turn(started("a", 1, 1), effect("a", 1, "intended", "once"), effect("a", 1, "unknown", "once"), effect("a", 1, "intended", "once")), "without approval"},
		{"by leave", turn(started("a", 1, 1), effect("a", 1, "intended", "once"), effect("a", 1, "unknown", "once"), asked("a", 1, "effect:once#1"), decision("a", 1, "effect:once#1", mailroom.VerdictApprove), effect("a", 1, "intended", "once"), effect("a", 1, "settled", "once"), completed("a", 1, "")), ""},
		{"a harmless effect called again", turn(started("a", 1, 1), effect("a", 1, "intended", "sure"), effect("a", 1, "unknown", "sure"), effect("a", 1, "intended", "sure"), effect("a", 1, "settled", "sure"), completed("a", 1, "")), ""},
		{"an effect settled twice", turn(started("a", 1, 1), effect("a", 1, "intended", "sure"), effect("a", 1, "settled", "sure"), effect("a", 1, "intended", "sure")), "had already settled"},
		{"a decision spent twice", turn(started("a", 1, 1), asked("a", 1, "q"), wait, decision("a", 1, "q", mailroom.VerdictDeny), decision("a", 1, "q", mailroom.VerdictApprove)), "is already"},
		{"a decision of nothing", turn(started("a", 1, 1), decision("a", 1, "q", mailroom.VerdictDeny)), "never opened"},
		{"a decision after the end", turn(started("a", 1, 1), asked("a", 1, "q"), completed("a", 1, ""), decision("a", 1, "q", mailroom.VerdictDeny)), "is void"},
		{"steered and read", append(steered, line{entry.KindMessageRead, "a", 1, entry.MessageRef{Message: "b.4"}}, completed("a", 1, "")), ""},
		{"steered and dropped", append(steered, completed("a", 1, "")), "neither read nor became a run"},
		{"steered and both", append(steered, line{entry.KindMessageRead, "a", 1, entry.MessageRef{Message: "b.4"}}, completed("a", 1, ""), queued("b", 128, "b.4")), "becomes a run but was read"},
		{"an edit of what was read", turn(started("a", 1, 1), line{entry.KindEdited, "a", 1, entry.Edited{Message: "a.1", Text: "x"}}), "was already read"},
		{"never ended", turn(started("a", 1, 1)), "never ended"},
		{"an entry of an unknown run", []line{started("a", 1)}, "unknown run"},
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
		s := fold.New("t", func(string) bool { return false })
		var found []string
		for _, seq := range seqs {
			body := mailroom.Message{ID: "a.1", Seq: seq, Run: "a"}
			e, err := entry.New("t", seq, entry.KindMessage, "a", 0, time.UnixMilli(seq), body)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, s.Add(e)...)
		}
		if len(found) == 0 {
			t.Errorf("entries %v: nothing found", seqs)
		}
	}
}

func TestARunThatWasHeldGetsItsPlaceWhenItsTimeComes(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(1000 + ms).UTC() }
	held := line{entry.KindQueued, "a", 0, entry.RunQueued{Priority: 128, AvailableAt: at(5), Messages: []string{"a.1"}}}
	before := []line{userMessage("a", "1"), held, userMessage("b", "2"), queued("b", 128, "b.3")}
	if got := check(t, false, append(before, started("b", 1, 3))...); got != "" {
		t.Errorf("a run starts while the one before it is held: %s", got)
	}
	if got := check(t, false, append(before, lineNothing(), lineNothing(), started("a", 1, 1))...); !strings.Contains(got, "starts before run b") {
		t.Errorf("one that was submitted before the time of a held one comes first: %q", got)
	}
	if got := check(t, false, userMessage("a", "1"), held, started("a", 1, 1)); !strings.Contains(got, "before its time") {
		t.Errorf("a held run starts early: %q", got)
	}
}

// lineNothing returns an entry without effect, which lets a moment pass.
func lineNothing() line { return userMessage("z", "never queued") }
