package thread_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

func TestAMessageOfAPersonAnswersAndOneOfARunDoesNot(t *testing.T) {
	for via, want := range map[string]store.Disposition{
		"user": store.DispositionResumed, "channel:chat": store.DispositionResumed,
		"run": store.DispositionQueued, "wake": store.DispositionQueued,
	} {
		w := newFixture(t)
		w.park(false, ask("q", mailroom.TicketInput))
		s := in("", "n")
		s.Origin.Via = via
		wantEqual(t, "via "+via, w.must(s).Disposition, want)
		if want != store.DispositionResumed {
			wantTicket(t, w.ticket("q"), mailroom.TicketOpen)
			continue
		}
		k := w.ticket("q")
		wantTicket(t, k, mailroom.TicketDecided)
		wantEqual(t, "answer", string(k.Answer), `"say n"`) // the form of an answer that a person gives to the ticket itself
		w.mustStart("x")
		resumed := body[entry.RunStarted](t, w.last())
		wantEqual(t, "messages read", len(resumed.Messages), 1)
		wantEqual(t, "handed over", len(w.steered()), 1)
	}
}

func TestAMessageQueuedBeforeTheQuestionIsNoAnswer(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	w.must(in("", "before"))
	w.end(parked(false, ask("q", mailroom.TicketInput)))
	wantEqual(t, "run x", w.state("x"), "waiting")
	wantTicket(t, w.ticket("q"), mailroom.TicketOpen)
	wantEqual(t, "queue", w.queue(), "before")
}

func TestAMessageAnswersNoQuestionThatHasExpired(t *testing.T) {
	for mode, want := range map[mailroom.Mode]store.Disposition{
		mailroom.ModeQueue: store.DispositionQueued, mailroom.ModeSteer: store.DispositionSteered,
	} {
		w := newFixture(t)
		q := ask("q", mailroom.TicketInput)
		q.Expires = w.now.Add(time.Second)
		w.park(false, q)
		w.now = q.Expires // the expired ticket has made the run due, but no claim came yet
		wantEqual(t, string(mode), w.must(in(mode, "n")).Disposition, want)
		wantTicket(t, w.ticket("q"), mailroom.TicketOpen)
		w.mustStart("x")
		wantTicket(t, w.ticket("q"), mailroom.TicketExpired)
	}
}

func TestAMessageAnswersTheQuestionThatHasNotExpired(t *testing.T) {
	w := newFixture(t)
	first, second := ask("first", mailroom.TicketInput), ask("second", mailroom.TicketInput)
	first.Expires = w.now.Add(time.Second)
	w.park(false, first, second)
	w.now = first.Expires
	wantEqual(t, "disposition", w.must(in("", "n")).Disposition, store.DispositionResumed)
	wantTicket(t, w.ticket("first"), mailroom.TicketOpen) // the next claim of the run expires it
	wantTicket(t, w.ticket("second"), mailroom.TicketDecided)
}

func TestAScheduledMessageIsNoAnswer(t *testing.T) {
	for name, a := range waitStates() {
		w := newFixture(t)
		w.park(true, a...)
		s := in("", "n")
		s.NotBefore = w.now.Add(time.Minute)
		wantEqual(t, "waiting for "+name, w.must(s).Disposition, store.DispositionQueued)
		wantEqual(t, "run x", w.state("x"), "waiting")
	}
}

func TestASteeredMessageThatIsUnreadWhenTheRunAsksIsHandedOver(t *testing.T) {
	for kind, want := range map[mailroom.TicketKind]string{mailroom.TicketInput: "queued",
		mailroom.TicketApproval: "waiting"} {
		w := newFixture(t)
		w.must(in("", "x"))
		w.mustStart("x")
		w.must(in(mailroom.ModeSteer, "s"))
		w.end(parked(false, ask("q", kind)))
		wantEqual(t, "run that asked for "+string(kind), w.state("x"), want)
	}
}

func TestASteerWhileWaitingForApprovalIsReadOnResume(t *testing.T) {
	w := newFixture(t)
	w.park(false, ask("ok", mailroom.TicketApproval))
	out := w.must(in(mailroom.ModeSteer, "s"))
	w.mustDecide("ok", mailroom.VerdictApprove)
	w.mustStart("x")
	wantEqual(t, "read", body[entry.RunStarted](t, w.last()).Messages, []int64{out.Seq})
	wantEqual(t, "handed over", w.steered(), []mailroom.Input{{Message: out.Message, Seq: out.Seq}})
}

func TestAFullQueueTakesTheAnswerAndNothingElse(t *testing.T) {
	for state, asks := range waitStates() {
		w := newFixture(t)
		w.park(true, asks...)
		for mode, want := range map[mailroom.Mode]mailroom.Code{mailroom.ModeQueue: mailroom.CodeRateLimited,
			mailroom.ModeCollect: mailroom.CodeRateLimited} {
			s := in(mode, "n")
			w.queued, w.maxQueued = 3, 3
			if state != "approval" {
				want = ""
				s.Run += string(mode)
			}
			_, err := w.submit(s)
			wantCode(t, err, want)
			if want == "" {
				break // the run is no longer waiting
			}
		}
	}
	w := newFixture(t)
	w.park(false, ask("ok", mailroom.TicketApproval))
	s := in("", "d")
	s.Messages, s.Decisions = nil, []thread.Decision{w.decision("ok", mailroom.VerdictApprove)}
	w.queued, w.maxQueued = 3, 3
	if _, err := w.submit(s); err != nil {
		t.Errorf("a decision waits for no room: %v", err)
	}
	full := in(mailroom.ModeSteer, "n") // the thread has no run to steer, so the message needs a place in the queue
	idle := newFixture(t)
	idle.queued, idle.maxQueued = 3, 3
	_, err := idle.submit(full)
	wantCode(t, err, mailroom.CodeRateLimited)
}

func TestASubmitWithTwoVerdictsOnOneTicketIsRefused(t *testing.T) {
	w := newFixture(t)
	w.park(false, ask("ok", mailroom.TicketApproval), ask("two", mailroom.TicketApproval))
	s := in("", "d")
	s.Messages = nil
	s.Decisions = []thread.Decision{w.decision("ok", mailroom.VerdictApprove), w.decision("ok", mailroom.VerdictDeny)}
	_, err := w.submit(s)
	wantCode(t, err, mailroom.CodeConflict)
	s.Decisions[1] = w.decision("two", mailroom.VerdictDeny)
	wantEqual(t, "status", w.must(s).Status, mailroom.StatusQueued)
}

func TestTheEndOfAChildIsReported(t *testing.T) {
	child := func(w *fixture, answer mailroom.AnswerMode) {
		s := in("", "c")
		s.Parent, s.From = "p",
			&thread.Descent{Caller: &mailroom.Caller{Thread: "parent", Run: "p", Name: "help", Answer: answer}}
		w.must(s)
	}
	ends := map[mailroom.Status]func(w *fixture){
		mailroom.StatusCompleted: func(w *fixture) { w.mustStart("c"); w.end(completed("done")) },
		mailroom.StatusFailed:    func(w *fixture) { w.mustStart("c"); w.end(failed(mailroom.ClassPermanent)) },
		mailroom.StatusCancelled: func(w *fixture) {
			if _, err := w.cancel("c"); err != nil {
				w.t.Fatal(err)
			}
		},
	}
	for want, end := range ends {
		w := newFixture(t)
		child(w, mailroom.AnswerWait)
		end(w)
		if len(w.ends) != 1 || len(w.sent) != 0 {
			t.Fatalf("%s: told %d waiting runs and %d threads", want, len(w.ends), len(w.sent))
		}
		var got struct{ Status mailroom.Status }
		if err := json.Unmarshal(w.ends[0].Answer, &got); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "status", got.Status, want)

		w = newFixture(t)
		child(w, mailroom.AnswerWake)
		end(w)
		if len(w.ends) != 0 || len(w.sent) != 1 {
			t.Fatalf("%s: told %d waiting runs and %d threads", want, len(w.ends), len(w.sent))
		}
		sent := w.sent[0]
		wantEqual(t, "visibility", sent.Messages[0].Visibility, mailroom.VisibleInternal)
		wantEqual(t, "thread", sent.Thread, "parent")
		wantEqual(t, "via", sent.Origin.Via, "wake")
	}
}

func TestEachEndOfARetriedRunIsAMessageOfItsOwn(t *testing.T) {
	w := newFixture(t)
	s := in("", "c")
	s.Parent, s.From = "p",
		&thread.Descent{Caller: &mailroom.Caller{Thread: "parent", Run: "p", Name: "help", Answer: mailroom.AnswerWake}}
	w.must(s)
	w.mustStart("c")
	w.end(failed(mailroom.ClassPermanent))
	if _, err := w.retry(thread.Retry{Run: "c"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.cancel("c"); err != nil {
		t.Fatal(err)
	}
	if len(w.sent) != 2 || w.sent[0].Key == w.sent[1].Key || w.sent[0].Run == w.sent[1].Run {
		t.Errorf("two ends need two messages of their own: %+v", w.sent)
	}
}

func TestAWaitingSendNeedsARunOfItsOwn(t *testing.T) {
	w := newFixture(t)
	w.park(false, ask("hook", mailroom.TicketEvent))
	s := in("", "c")
	s.Origin.Via, s.Parent = "run", "p"
	s.From = &thread.Descent{Caller: &mailroom.Caller{Thread: "parent", Run: "p", Name: "help",
		Answer: mailroom.AnswerWait}}
	wantEqual(t, "disposition", w.must(s).Disposition, store.DispositionQueued)
	if w.runs["c"] == nil || w.runs["c"].Caller == nil {
		t.Error("the run that is waited for does not know who waits")
	}
}

func TestRepliesAreDeliveredUnlessBlank(t *testing.T) {
	// For a blank reply, the delivery says how the run ended.
	for reply, want := range map[string]int{"hello": 1, " \n": 1, "": 1} {
		w := newFixture(t)
		w.row.DeliverTo = "chat"
		w.must(in("", "x"))
		w.mustStart("x")
		w.end(completed(reply))
		if len(w.sent) != want {
			t.Fatalf("reply %q: %d deliveries, want %d", reply, len(w.sent), want)
		}
		sent := w.sent[0]
		if err := sent.Check(); err != nil {
			t.Errorf("reply %q: %v", reply, err)
		}
		wantEqual(t, "reply "+reply, sent.Messages[0].Parts[0].Type == "text", reply == "hello")
		r := mailroom.Run{ID: sent.Run, Parent: sent.Parent, SubmitKey: sent.Key}
		wantEqual(t, "is a delivery", thread.IsDelivery(r.View()), true)
	}
}

// A reader of the thread sees reasoning and data. A chat gets the text and the addresses of the files.
func TestAMessageHasPartsBesideItsText(t *testing.T) {
	thought := mailroom.Part{Type: mailroom.PartReasoning, Text: "secret thought"}
	data := mailroom.Part{Type: mailroom.PartData, Data: json.RawMessage(`{"a":1}`)}
	file := mailroom.Part{Type: mailroom.PartFile, URI: "https://example.org/a.pdf", Name: "a.pdf"}
	for name, c := range map[string]struct {
		text  string
		parts []mailroom.Part
		types string
		reply string
	}{
		"with text": {"Here it is.", []mailroom.Part{file, data, thought}, "reasoning text file data",
			"Here it is.\na.pdf: https://example.org/a.pdf"},
		"without text":        {"", []mailroom.Part{file}, "file", "a.pdf: https://example.org/a.pdf"},
		"a file without name": {"", []mailroom.Part{{Type: mailroom.PartFile, URI: file.URI}}, "file", file.URI},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.row.DeliverTo = "chat"
			w.must(in("", "x"))
			w.mustStart("x")
			w.step(thread.StepCommit{Message: &thread.PartialText{ID: "m1", Text: c.text, Parts: c.parts}})
			var m mailroom.Message
			for _, e := range w.log {
				if e.Kind == entry.KindMessage {
					if err := e.Decode(&m); err != nil {
						t.Fatal(err)
					}
				}
			}
			var types []string
			for _, p := range m.Parts {
				types = append(types, p.Type)
			}
			wantEqual(t, "types", strings.Join(types, " "), c.types)
			wantEqual(t, "text", m.Text, c.text)
			wantEqual(t, "reply", *w.runs["x"].Reply, c.reply)
			wantEqual(t, "delivered", w.sent[0].Messages[0].Parts[0].Text, c.reply)
			w.end(completed(""))
			wantEqual(t, "deliveries", len(w.sent), 1)
		})
	}
}

func TestAFailureAfterAStepWithAMessageIsReported(t *testing.T) {
	w := newFixture(t)
	w.row.DeliverTo = "chat"
	w.must(in("", "x"))
	w.mustStart("x")
	w.step(thread.StepCommit{Message: &thread.PartialText{ID: "m1", Text: "I begin."}})
	w.end(failed(mailroom.ClassPermanent))
	if len(w.sent) != 2 {
		t.Fatalf("%d deliveries, want what it said and that it failed", len(w.sent))
	}
	wantEqual(t, "the first is text", w.sent[0].Messages[0].Parts[0].Type, "text")
	wantEqual(t, "the second tells the end", strings.Contains(string(w.sent[1].Messages[0].Parts[0].Data),
		`"status":"failed"`), true)
}

func TestHopsAreBounded(t *testing.T) {
	w := newFixture(t)
	s := in("", "x")
	s.From = &thread.Descent{Lineage: slices.Repeat([]string{"far"}, mailroom.MaxHops)}
	w.row.DeliverTo = "chat"
	w.must(s)
	w.mustStart("x")
	_, err := w.append(
		thread.StepCommit{Step: mailroom.Step{Sends: []mailroom.Send{{Name: "on", Thread: "next",
			Parts: mailroom.Text("on")}}}})
	wantCode(t, err, mailroom.CodeInvalid)
	w.end(completed("done"))
	wantEqual(t, "deliveries", len(w.sent), 0)
}

func TestAWaitForItselfOrAnAncestorIsRefused(t *testing.T) {
	for _, target := range []string{"t", "grandparent"} {
		w := newFixture(t)
		s := in("", "x")
		s.From = &thread.Descent{Lineage: []string{"grandparent"}}
		w.must(s)
		w.mustStart("x")
		_, err := w.append(thread.StepCommit{Step: mailroom.Step{Sends: []mailroom.Send{{
			Name: "help", Thread: target, Parts: mailroom.Text("help"), Answer: mailroom.AnswerWait,
		}}}})
		wantCode(t, err, mailroom.CodeInvalid)
	}
}

func TestAMessageThatAnsweredATicketIsNotChanged(t *testing.T) {
	w := newFixture(t)
	w.park(false, ask("q", mailroom.TicketInput), ask("may", mailroom.TicketApproval))
	first := w.must(in("", "n")) // the run goes on waiting for the approval
	later := w.must(in(mailroom.ModeSteer, "later"))
	for state, do := range map[string]func() error{
		"edited": func() error { return w.edit(first.Message, "other words") }, "retracted": func() error {
			return w.retract(first.Message)
		},
	} {
		if err := do(); mailroom.CodeOf(err) != mailroom.CodeConflict ||
			!strings.Contains(err.Error(), "has answered a ticket") {
			t.Errorf("%s: %v", state, err)
		}
	}
	if err := w.edit(later.Message, "this one has answered nothing"); err != nil {
		t.Error(err)
	}
	if _, err := w.decide(w.decision("may", mailroom.VerdictApprove)); err != nil {
		t.Fatal(err)
	}
	if err := w.edit(first.Message, "other words"); mailroom.CodeOf(err) != mailroom.CodeConflict {
		t.Errorf("edited before the claim: %v", err)
	}
	w.mustStart("x")
	if got := len(body[entry.RunStarted](t, w.last()).Messages); got != 2 {
		t.Errorf("%d messages read", got)
	}
	w.step(thread.StepCommit{Step: mailroom.Step{Name: "used"}, Covers: w.row.LastSeq})
	if r := w.runs["x"]; len(r.Spent) != 0 {
		t.Errorf("after a step that covers it: %v", r.Spent)
	}
}

func TestARepeatedSettleOpensTheSameTickets(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	c := w.mustStart("x")
	first := parked(false, ask("q", mailroom.TicketInput))
	first.Claim, first.Number = c, 1
	w.end(first)
	again := parked(false, ask("q", mailroom.TicketInput))
	again.Claim, again.Number = c, 1
	if _, err := w.settle(again); err != nil {
		t.Errorf("the same again: %v", err)
	}
	other := parked(false, ask("q", mailroom.TicketInput))
	other.Asks = append(other.Asks, ask("p", mailroom.TicketInput))
	other.Claim, other.Number = c, 1
	if _, err := w.settle(other); mailroom.CodeOf(err) != mailroom.CodeConflict &&
		mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
		t.Errorf("with another ticket: %v", err)
	}
	wantEqual(t, "tickets", len(w.asks), 1)
}
