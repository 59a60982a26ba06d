package thread_test

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

func TestADecisionIsUsedOnceAndItsRepeatReturnsTheTicket(t *testing.T) {
	w := newFixture(t)
	w.park(false, ask("ok", mailroom.TicketApproval))
	d := w.decision("ok", mailroom.VerdictApprove)
	first, err := w.decide(d)
	if err != nil {
		t.Fatal(err)
	}
	last := w.row.LastSeq
	w.wait(time.Hour)
	again, err := w.decide(d)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "ticket", *again, *first)
	_, err = w.decide(w.decision("ok", mailroom.VerdictDeny))
	wantCode(t, err, mailroom.CodeConflict)
	w.wantSince(last, "")
}

func TestTheSameAnswerIsRecognisedInAnyFormOfItsJSON(t *testing.T) {
	w := newFixture(t)
	w.park(false, ask("q", mailroom.TicketInput))
	d := w.decision("q", mailroom.VerdictAnswer)
	for _, answer := range []string{`{"a":"<b>","c":[1,2]}`, `{ "a": "<b>", "c": [1, 2] }`} {
		d.Answer = json.RawMessage(answer)
		if _, err := w.decide(d); err != nil {
			t.Errorf("answer %s: %v", answer, err)
		}
	}
}

func TestADecisionMustFitItsTicket(t *testing.T) {
	kinds := []mailroom.Ask{
		ask("ok", mailroom.TicketApproval), ask("q", mailroom.TicketInput), ask("hook", mailroom.TicketEvent),
		ask("later", mailroom.TicketTimer),
		{Name: "data", Kind: mailroom.TicketApproval, Answers: true},
	}
	for _, c := range []struct {
		name    string
		verdict mailroom.Verdict
		edit    func(*thread.Decision)
		want    mailroom.Code
	}{
		{"ok", mailroom.VerdictApprove, nil, ""},
		{"ok", mailroom.VerdictDeny, func(d *thread.Decision) { d.Digest = "" }, ""},
		{"ok", mailroom.VerdictApprove, func(d *thread.Decision) { d.Digest = d.Digest[:16] }, ""},
		{"ok", mailroom.VerdictApprove, func(d *thread.Decision) { d.Digest = strings.ToUpper(d.Digest[:16]) }, ""},
		{"ok", mailroom.VerdictApprove, func(d *thread.Decision) { d.Digest = d.Digest[:15] }, mailroom.CodeConflict},
		{"ok", mailroom.VerdictApprove, func(d *thread.Decision) { d.Digest = "" }, mailroom.CodeInvalid},
		{"ok", mailroom.VerdictApprove, func(d *thread.Decision) { d.Digest = strings.Repeat("0", 64) }, mailroom.CodeConflict},
		{"ok", mailroom.VerdictDeny, func(d *thread.Decision) { d.Digest = strings.Repeat("0", 64) }, mailroom.CodeConflict},
		{"ok", mailroom.VerdictApprove, func(d *thread.Decision) { d.Digest += "0" }, mailroom.CodeConflict},
		{"ok", mailroom.VerdictAnswer, nil, mailroom.CodeInvalid},
		{"data", mailroom.VerdictAnswer, nil, ""},
		{"q", mailroom.VerdictAnswer, nil, ""},
		{"q", mailroom.VerdictAnswer, func(d *thread.Decision) { d.Answer = nil }, mailroom.CodeInvalid},
		{"q", mailroom.VerdictAnswer, func(d *thread.Decision) { d.Answer = json.RawMessage(`{`) }, mailroom.CodeInvalid},
		{"q", mailroom.VerdictAnswer, func(d *thread.Decision) {
			d.Answer = json.RawMessage(`"` + strings.Repeat("x", mailroom.MaxAnswer) + `"`)
		}, mailroom.CodeTooLarge},
		{"q", mailroom.VerdictAnswer, func(d *thread.Decision) { d.Reason = strings.Repeat("x", mailroom.MaxAnswer+1) }, mailroom.CodeTooLarge},
		{"q", mailroom.VerdictApprove, nil, mailroom.CodeInvalid},
		{"hook", mailroom.VerdictAnswer, nil, ""},
		{"later", mailroom.VerdictAnswer, nil, mailroom.CodeInvalid},
		{"later", mailroom.VerdictApprove, nil, mailroom.CodeInvalid},
		{"ok", mailroom.VerdictDeny, func(d *thread.Decision) { d.Ticket = "none" }, mailroom.CodeNotFound},
		{"ok", mailroom.VerdictDeny, func(d *thread.Decision) { d.Reason = "\x00" }, mailroom.CodeInvalid},
	} {
		w := newFixture(t)
		w.park(false, kinds...)
		d := w.decision(c.name, c.verdict)
		if c.edit != nil {
			c.edit(&d)
		}
		_, err := w.decide(d)
		if got := mailroom.CodeOf(err); got != c.want {
			t.Errorf("%s of %q with %.200s: got %v, want %q", c.verdict, c.name, fmt.Sprint(d), err, c.want)
		}
	}
}

func TestExpiryNeverApprovesAndResumesTheRun(t *testing.T) {
	w := newFixture(t)
	a := ask("ok", mailroom.TicketApproval)
	a.After = time.Hour
	w.park(false, a)
	w.wait(time.Hour)
	_, err := w.decide(w.decision("ok", mailroom.VerdictApprove)) // not fired yet, and late all the same
	wantCode(t, err, mailroom.CodeGone)
	last := w.row.LastSeq
	w.mustStart("x")
	w.wantSince(last, "ticket.expired x, run.resumed x")
	k := w.ticket("ok")
	wantTicket(t, k, mailroom.TicketExpired)
	wantEqual(t, "decision", k.Decision, "")
	_, err = w.decide(w.decision("ok", mailroom.VerdictApprove))
	wantCode(t, err, mailroom.CodeGone)
}

func TestAWaitForAllEndsWithTheLastAndOneForAnyWithTheFirst(t *testing.T) {
	for _, c := range []struct {
		any  bool
		want []string // status of the run after each decision
	}{{false, []string{"waiting", "queued"}}, {true, []string{"queued", "queued"}}} {
		w := newFixture(t)
		w.park(c.any, ask("one", mailroom.TicketApproval), ask("two", mailroom.TicketApproval))
		for i, name := range []string{"one", "two"} {
			w.mustDecide(name, mailroom.VerdictApprove)
			wantEqual(t, fmt.Sprintf("any %v, decision %d", c.any, i), w.state("x"), c.want[i])
		}
	}
}

func TestTheDueTimeOfAWaitIsItsEarliestOpenTime(t *testing.T) {
	w := newFixture(t)
	late, soon := ask("late", mailroom.TicketApproval), ask("soon", mailroom.TicketApproval)
	late.After, soon.After = 3*time.Hour, time.Hour
	w.park(false, late, soon, ask("never", mailroom.TicketInput))
	begin := w.now
	wantEqual(t, "due", w.row.Due.At, begin.Add(time.Hour))
	w.mustDecide("soon", mailroom.VerdictDeny)
	wantEqual(t, "due", w.row.Due.At, begin.Add(3*time.Hour))
	w.mustDecide("late", mailroom.VerdictDeny)
	wantEqual(t, "due", w.row.Due.At, time.Time{})
	wantEqual(t, "state", w.state("x"), "waiting")
}

func TestDueTicketsFireAndResumeOnlyWhenTheWaitIsOver(t *testing.T) {
	w := newFixture(t)
	w.park(false, ask("later", mailroom.TicketTimer), ask("ok", mailroom.TicketApproval))
	w.wait(time.Hour)
	last := w.row.LastSeq
	if r := w.start(); r != nil {
		t.Fatalf("started %s, which still waits", r.ID)
	}
	w.wantSince(last, "ticket.expired x")
	wantEqual(t, "due", w.row.Due.At, time.Time{})
	w.mustDecide("ok", mailroom.VerdictApprove)
	w.mustStart("x")
}

func TestADecisionMayComeBeforeTheWait(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	a := ask("ok", mailroom.TicketApproval)
	w.step(thread.StepCommit{Step: mailroom.Step{Tickets: []mailroom.Ask{a}}})
	w.mustDecide("ok", mailroom.VerdictApprove)
	wantEqual(t, "state", w.state("x"), "running")
	last := w.row.LastSeq
	w.end(parked(false, a))
	wantEqual(t, "state", w.state("x"), "queued")
	w.mustStart("x")
	w.wantSince(last, "run.waiting x, run.resumed x")
	resumed := body[entry.RunStarted](t, w.last())
	wantEqual(t, "tickets", resumed.Tickets, []string{w.ticket("ok").ID})
}

func TestAskingTwiceUnderOneNamePromptsOnce(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	a := ask("ok", mailroom.TicketApproval)
	w.step(thread.StepCommit{Step: mailroom.Step{Tickets: []mailroom.Ask{a}}})
	last := w.row.LastSeq
	w.step(thread.StepCommit{Step: mailroom.Step{Tickets: []mailroom.Ask{a}}})
	w.wantSince(last, "")
	other := a
	other.Arguments = json.RawMessage(`{"to":"prod"}`)
	_, err := w.append(thread.StepCommit{Step: mailroom.Step{Tickets: []mailroom.Ask{other}}})
	wantCode(t, err, mailroom.CodeConflict)
	_, err = w.settle(parked(false, other))
	wantCode(t, err, mailroom.CodeConflict)
	twice := ask("new", mailroom.TicketApproval)
	changed := twice
	changed.Action = "other"
	_, err = w.append(thread.StepCommit{Step: mailroom.Step{Tickets: []mailroom.Ask{twice, changed}}})
	wantCode(t, err, mailroom.CodeConflict)
	w.end(parked(false, a))
	w.wantSince(last, "run.waiting x")
}

func TestAQuestionThatNothingCouldAnswerIsRefused(t *testing.T) {
	for _, a := range []mailroom.Ask{
		{Kind: mailroom.TicketApproval},
		{Name: "n", Kind: "other"},
		{Name: "n", Kind: mailroom.TicketTimer},
		{Name: "n", Kind: mailroom.TicketChildren},
		{Name: "n", Kind: mailroom.TicketInput, Answers: true},
		{Name: "n", Kind: mailroom.TicketInput, Prompt: "\x00"},
		{Name: "n", Kind: mailroom.TicketInput, Prompt: strings.Repeat("x", mailroom.MaxAnswer)},
		{Name: "n", Kind: mailroom.TicketInput, Arguments: json.RawMessage(`{`)},
		{Name: "n", Kind: mailroom.TicketInput, Expires: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		w := newFixture(t)
		w.must(in("", "x"))
		w.mustStart("x")
		want := mailroom.CodeInvalid
		if len(a.Prompt) >= mailroom.MaxAnswer {
			want = mailroom.CodeTooLarge
		}
		_, err := w.append(thread.StepCommit{Step: mailroom.Step{Tickets: []mailroom.Ask{a}}})
		wantCode(t, err, want)
		_, err = w.settle(parked(false, a))
		wantCode(t, err, want)
	}
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	_, err := w.settle(thread.Settle{Outcome: thread.OutcomePark, Wait: &mailroom.Wait{Names: []string{"unasked"}}})
	wantCode(t, err, mailroom.CodeInvalid)
	_, err = w.settle(thread.Settle{Outcome: thread.OutcomePark, Wait: &mailroom.Wait{}})
	wantCode(t, err, mailroom.CodeInvalid)
}

func TestTicketsAreVoidOnceTheirRunEnded(t *testing.T) {
	ends := map[string]func(w *fixture){
		"completed": func(w *fixture) { w.end(completed("done")) },
		"failed":    func(w *fixture) { w.end(failed(mailroom.ClassPermanent)) },
		"cancelled/cancelled": func(w *fixture) {
			if _, err := w.cancel("x"); err != nil {
				w.t.Fatal(err)
			}
			w.end(released())
		},
		"cancelled/interrupted": func(w *fixture) { w.interrupt(); w.end(released()) },
	}
	for want, end := range ends {
		w := newFixture(t)
		w.must(in("", "x"))
		w.mustStart("x")
		w.step(thread.StepCommit{Step: mailroom.Step{Tickets: []mailroom.Ask{ask("ok", mailroom.TicketApproval)}}})
		end(w)
		wantEqual(t, "run", w.state("x"), want)
		wantTicket(t, w.ticket("ok"), mailroom.TicketVoid)
		_, err := w.decide(w.decision("ok", mailroom.VerdictApprove))
		wantCode(t, err, mailroom.CodeConflict)
	}
}

func TestAnInterruptOfAParkedRunEndsItAndVoidsItsTickets(t *testing.T) {
	w := newFixture(t)
	w.park(false, ask("ok", mailroom.TicketApproval))
	if out := w.interrupt(); out.Stopping != nil {
		t.Errorf("got stopping %s; no worker holds the run", *out.Stopping)
	}
	wantEqual(t, "run", w.state("x"), "cancelled/interrupted")
	wantTicket(t, w.ticket("ok"), mailroom.TicketVoid)
	wantEqual(t, "current", w.row.Current, "")
}

func TestSixApprovalsCountAsNoFailure(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	for i := range 6 {
		w.mustStart("x")
		name := fmt.Sprint("ok", i)
		w.end(parked(false, ask(name, mailroom.TicketApproval)))
		w.mustDecide(name, mailroom.VerdictApprove)
	}
	w.mustStart("x")
	r := w.end(completed("done"))
	wantEqual(t, "failures", r.Failures, 0)
	wantEqual(t, "attempt", r.Attempt, 7)
}

// TestAWaitDoesNotCountAsOutage has a run meet an outage, park for days, and meet the next
// one when it goes on.
func TestAWaitDoesNotCountAsOutage(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	for range 3 {
		w.mustStart("x")
		w.end(failed(mailroom.ClassUnavailable))
		w.now = w.row.Due.At
	}
	w.mustStart("x")
	w.end(parked(false, ask("ok", mailroom.TicketApproval)))
	w.wait(3 * 24 * time.Hour)
	w.mustDecide("ok", mailroom.VerdictApprove)
	w.mustStart("x")
	w.end(failed(mailroom.ClassUnavailable))
	wantEqual(t, "state", w.state("x"), "queued")
	wantEqual(t, "outages", w.runs["x"].Outages, 1)
	wantEqual(t, "put off for", w.row.Due.At.Sub(w.now), 250*time.Millisecond)
}
