package thread_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mailroom"
	"mailroom/thread"
)

// The committer serves everybody, so the work of a transition in it must not grow faster than its
// request. A digest allocates, so the tests count allocations, not time.

// workOf returns the allocations of what f does in the committer with a request of this many items.
func workOf(t *testing.T, items int, f func(t *testing.T, items int) (inCommitter func())) float64 {
	t.Helper()
	return testing.AllocsPerRun(1, f(t, items))
}

func TestAStepChecksItsTicketsInLinearTime(t *testing.T) {
	for name, nameOf := range map[string]func(int) string{
		"of one name":   func(int) string { return "same" },
		"of many names": func(i int) string { return fmt.Sprint("name", i) },
	} {
		t.Run(name, func(t *testing.T) {
			step := func(t *testing.T, items int) func() {
				w := newFixture(t)
				w.must(in("", "x"))
				c := w.mustStart("x")
				a := thread.StepCommit{Claim: c, Number: 1}
				for i := range items {
					a.Step.Tickets = append(a.Step.Tickets, mailroom.Ask{Name: nameOf(i), Kind: mailroom.TicketEvent,
						Prompt: strings.Repeat("p", 3500)})
				}
				if err := a.Check(); err != nil {
					t.Fatal(err)
				}
				state := w.load(thread.ScopeHead, "")
				return func() {
					if _, _, err := state.CheckStep(&a); err != nil {
						t.Error(err)
					}
				}
			}
			few, many := workOf(t, 100, step), workOf(t, 1000, step)
			if digests := 1000.0; many >= digests {
				t.Errorf("checking a step of 1000 tickets in the committer allocates %v times, want fewer than one digest for each",
					many)
			}
			if many > 20*(few+10) {
				t.Errorf("10 times the tickets cost %v allocations instead of %v: the work grows faster than the request", many,
					few)
			}
		})
	}
}

func TestASettleChecksItsWaitInLinearTime(t *testing.T) {
	settle := func(t *testing.T, items int) func() {
		w := newFixture(t)
		w.must(in("", "x"))
		s := parked(false)
		s.Claim, s.Number = w.mustStart("x"), 1
		for i := range items {
			a := ask(fmt.Sprint("name", i), mailroom.TicketApproval)
			s.Asks, s.Wait.Names = append(s.Asks, a), append(s.Wait.Names, a.Name)
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		scopes := []*thread.State{w.load(thread.ScopeHead, ""), w.load(thread.ScopeHead, "")} // AllocsPerRun runs twice
		return func() {
			state := scopes[0]
			scopes = scopes[1:]
			if _, err := state.Settle(&s, w.now); err != nil {
				t.Error(err)
			}
		}
	}
	few, many := workOf(t, 100, settle), workOf(t, 1000, settle)
	if many > 20*few {
		t.Errorf("10 times the tickets cost %v allocations instead of %v: the work grows faster than the request", many, few)
	}
}

func TestASubmitChecksItsDecisionsInLinearTime(t *testing.T) {
	submit := func(t *testing.T, items int) func() {
		w := newFixture(t)
		w.park(false, ask("q", mailroom.TicketInput))
		in := thread.Submit{Thread: "t", Run: "y", Owner: "admin"}
		for range items {
			in.Decisions = append(in.Decisions, thread.Decision{
				Ticket: w.ticket("q").ID, Verdict: mailroom.VerdictAnswer, Answer: json.RawMessage(`"` + strings.Repeat("a", 1000) +
					`"`), By: "ann",
			})
		}
		if err := in.Check(); err != nil {
			t.Fatal(err)
		}
		state := w.load(thread.ScopeHead, "", "x")
		return func() {
			if _, err := state.Submit(in, thread.Resolved{Agent: "a"}, w.now); err != nil {
				t.Error(err)
			}
		}
	}
	few, many := workOf(t, 100, submit), workOf(t, 1000, submit)
	if many > 20*few {
		t.Errorf("10 times the decisions cost %v allocations instead of %v: the work grows faster than the request", many,
			few)
	}
}

func TestARunOpensABoundedNumberOfTickets(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	c := w.mustStart("x")
	for number := 1; ; number++ {
		var asks []mailroom.Ask
		for i := range 1000 {
			asks = append(asks, mailroom.Ask{Name: fmt.Sprint(number, "/", i), Kind: mailroom.TicketEvent, Prompt: "p"})
		}
		a := thread.StepCommit{Claim: c, Number: number, Step: mailroom.Step{Tickets: asks}}
		if number > thread.MaxTickets/1000 {
			_, _, err := w.load(thread.ScopeHead, "").CheckStep(&a)
			wantCode(t, err, mailroom.CodeTooLarge)
			return
		}
		if _, err := w.append(a); err != nil {
			t.Fatalf("step %d: %v", number, err)
		}
	}
}
