package ledger_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// Operations of tickets and children.

func approval(name string) mailroom.Ask {
	return mailroom.Ask{Name: name, Kind: mailroom.TicketApproval, Prompt: "may I?"}
}

func park(c mailroom.Claim, names []string, asks ...mailroom.Ask) thread.Settle {
	s := thread.Settle{Claim: c, Outcome: thread.OutcomePark, Wait: &mailroom.Wait{Names: names}, Asks: asks}
	for _, a := range asks {
		s.Wait.Names = append(s.Wait.Names, a.Name)
	}
	return s
}

func (d *fixture) ticket(run, name string) *mailroom.Ticket {
	d.t.Helper()
	return must(d.Ticket(d.ctx, thread.TicketID(run, name)))(d.t)
}

func (d *fixture) decide(run, name string, v mailroom.Verdict) {
	d.t.Helper()
	k := d.ticket(run, name)
	must(d.Decide(d.ctx, thread.Decision{Ticket: k.ID, Verdict: v, Digest: k.Digest, By: "ann"}))(d.t)
}

// send commits a step with one send.
func (d *fixture) send(c mailroom.Claim, s mailroom.Send) error {
	d.t.Helper()
	if s.Parts == nil {
		s.Parts = mailroom.Text("help")
	}
	_, err := d.Append(d.ctx, thread.StepCommit{
		Claim: c, Number: d.run(c.Run).Step + 1, Step: mailroom.Step{Sends: []mailroom.Send{s}},
	})
	return err
}

func (d *fixture) mustSend(c mailroom.Claim, s mailroom.Send) {
	d.t.Helper()
	if err := d.send(c, s); err != nil {
		d.t.Fatal(err)
	}
}

// claimIn claims due runs and returns the one of the thread.
func (d *fixture) claimIn(id string) thread.ClaimedRun {
	d.t.Helper()
	for _, w := range d.claim("w", 1) {
		if w.Claim.Thread == id {
			return w
		}
		d.t.Fatalf("claimed a run of thread %s, want %s", w.Claim.Thread, id)
	}
	d.t.Fatalf("no due run, want one of thread %s", id)
	return thread.ClaimedRun{}
}

// parent starts a run in thread "p" that has sent to thread "c" and waits for the child.
func (d *fixture) parent() (run string, child thread.ClaimedRun) {
	d.t.Helper()
	d.register("w")
	d.submit(text("p", "go"))
	p := d.claimIn("p")
	d.mustSend(p.Claim, mailroom.Send{Name: "help", Thread: "c", Answer: mailroom.AnswerWait})
	d.settle(park(p.Claim, []string{"help"}))
	return p.Run.ID, d.claimIn("c")
}

func wantRun(d *fixture, id string, want mailroom.Status) *mailroom.Run {
	d.t.Helper()
	r := d.run(id)
	if r.Status != want {
		d.t.Errorf("run %s: got %s (%v), want %s", id, r.Status, r.Error, want)
	}
	return r
}

// The check of invariants at the end must accept that a decision resets the failures without an entry.
func TestCancellingARunAfterItsDecisionBreaksNoInvariant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		run := d.submit(text("t", "hello")).Run
		d.settle(failure(d.claimOne("w").Claim, mailroom.ClassTransient))
		<-time.After(5 * time.Second)
		d.settle(park(d.claimOne("w").Claim, nil, approval("ok")))
		d.decide(run, "ok", mailroom.VerdictApprove)
		must(d.Cancel(d.ctx, run, "ann"))(t)
		wantEqual(t, "failures", d.run(run).Failures, 0)
	})
}

func TestADecisionSurvivesTheProcess(t *testing.T) {
	s := memory.New()
	d := open(t, s, ledger.Options{})
	d.register("w")
	out := d.submit(text("t", "go"))
	d.settle(park(d.claimIn("t").Claim, nil, approval("ok")))
	must(0, d.close())(t)
	d = open(t, s, ledger.Options{})
	d.decide(out.Run, "ok", mailroom.VerdictApprove)
	must(0, d.close())(t)
	d = open(t, s, ledger.Options{})
	d.register("w2")
	work := d.claimOne("w2")
	wantEqual(t, "run", work.Run.ID, out.Run)
	wantEqual(t, "entries", d.kinds("t"),
		"message, run.queued, run.started, ticket.opened, run.waiting, ticket.decided, run.resumed")
	d.settle(complete(work.Claim, "done"))
}

func TestASubmitWithDecisionsIsRecognisedAlsoWhenItsTicketsAreGone(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	in := text("t", "and go on")
	in.Decisions = []thread.Decision{{Ticket: "none", Verdict: mailroom.VerdictDeny}}
	_, err := d.Submit(d.ctx, in)
	wantCode(t, err, mailroom.CodeNotFound)
	if d.thread("t") != nil {
		t.Error("a refused submit created its thread")
	}
}

func TestAChildThatEndsBeforeItsParentWaitsIsNotMissed(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	out := d.submit(text("p", "go"))
	p := d.claimIn("p")
	d.mustSend(p.Claim, mailroom.Send{Name: "help", Thread: "c", Answer: mailroom.AnswerWait})
	d.settle(complete(d.claimIn("c").Claim, "here"))
	wantEqual(t, "ticket", d.ticket(out.Run, "help").State, mailroom.TicketDecided)
	d.settle(park(p.Claim, []string{"help"}))
	d.settle(complete(d.claimIn("p").Claim, "done"))
}

func TestTheEndOfAChildAnswersItsParent(t *testing.T) {
	for status, end := range map[mailroom.Status]func(d *fixture, c mailroom.Claim){
		mailroom.StatusCompleted: func(d *fixture, c mailroom.Claim) { d.settle(complete(c, "here")) },
		mailroom.StatusFailed:    func(d *fixture, c mailroom.Claim) { d.settle(failure(c, mailroom.ClassPermanent)) },
		mailroom.StatusCancelled: func(d *fixture, c mailroom.Claim) {
			must(d.Cancel(d.ctx, c.Run, "ann"))(d.t)
			d.settle(release(c))
		},
	} {
		d := open(t, nil, ledger.Options{})
		run, child := d.parent()
		end(d, child.Claim)
		wantRun(d, run, mailroom.StatusQueued)
		got := answer[struct {
			Status mailroom.Status
			Run    string
		}](d, run, "help")
		wantEqual(t, "status", got.Status, status)
		wantEqual(t, "run", got.Run, child.Run.ID)
	}
}

func TestTheEndOfAChildCommitsWithItsCallersTicketOrNotAtAll(t *testing.T) {
	store := newControlledStore(nil)
	d := open(t, store, ledger.Options{})
	run, child := d.parent()
	s := complete(child.Claim, "here")
	s.Number = 1
	store.setFaults(storetest.Fault{Kind: storetest.FailBefore})
	_, err := d.Settle(d.ctx, s)
	wantCode(t, err, mailroom.CodeUnavailable)
	wantRun(d, child.Run.ID, mailroom.StatusRunning)
	wantRun(d, run, mailroom.StatusWaiting)
	store.updates()
	d.settle(s)
	wantEqual(t, "commits", store.updates(), 1)
	wantRun(d, run, mailroom.StatusQueued)
}

func TestALongReplyOfAChildIsReferenced(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	run, child := d.parent()
	d.settle(complete(child.Claim, fmt.Sprintf("%0*d", 2*mailroom.MaxAnswer, 0)))
	got := answer[struct {
		Run   string
		Reply *string
		Cut   bool
	}](d, run, "help")
	if got.Run != child.Run.ID || got.Reply != nil || !got.Cut {
		t.Errorf("got %+v, want a reference to run %s", got, child.Run.ID)
	}
}

func answer[T any](d *fixture, run, name string) (v T) {
	d.t.Helper()
	e := mailroom.Entry{Body: d.ticket(run, name).Answer}
	must(0, e.Decode(&v))(d.t)
	return v
}

func TestARetriedParentGetsTheEndOfAnEndedChild(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		d := open(t, nil, ledger.Options{})
		run, child := d.parent()
		must(d.Cancel(d.ctx, run, "ann"))(t)
		d.settle(complete(child.Claim, "here"))
		must(d.Retry(d.ctx, thread.Retry{Run: run, Fresh: fresh}))(t)
		p := d.claimIn("p")
		d.mustSend(p.Claim, mailroom.Send{Name: "help", Thread: "c", Answer: mailroom.AnswerWait})
		wantEqual(t, "ticket", d.ticket(run, "help").State, mailroom.TicketDecided)
		wantEqual(t, "messages sent", len(d.claim("w", 1)), 0)
		d.settle(complete(p.Claim, "done"))
	}
}

func TestASendWithoutWaitingCannotBeWaitedForUnderItsName(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("p", "go"))
	p := d.claimIn("p")
	d.mustSend(p.Claim, mailroom.Send{Name: "help", Thread: "c"})
	wantCode(t, d.send(p.Claim, mailroom.Send{Name: "help", Thread: "c", Answer: mailroom.AnswerWait}),
		mailroom.CodeConflict)
}

func TestTheEndOfAChildWakesItsCallerWithAnInternalMessage(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("p", "go"))
	p := d.claimIn("p")
	d.mustSend(p.Claim, mailroom.Send{Name: "help", Thread: "c", Answer: mailroom.AnswerWake})
	d.settle(complete(p.Claim, "sent"))
	d.settle(complete(d.claimIn("c").Claim, "here"))
	work := d.claimIn("p")
	wantEqual(t, "via", work.Run.Origin.Via, "wake")
	all := must(d.Messages(d.ctx, "p", []int64{work.Run.Inputs[0].Seq}))(t)
	wantEqual(t, "visibility", all[0].Visibility, mailroom.VisibleInternal)
	wantEqual(t, "role", all[0].Role, mailroom.RoleUser)
	wantEqual(t, "part", all[0].Parts[0].Type, "data")
	d.settle(complete(work.Claim, "thanks"))
}

func TestOnlyACancelWithChildrenStopsThem(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	run, child := d.parent()
	d.settle(park(child.Claim, nil, approval("ok")))
	must(d.Cancel(d.ctx, run, "ann"))(t)
	wantEqual(t, "ticket", d.ticket(run, "help").State, mailroom.TicketVoid)
	wantRun(d, child.Run.ID, mailroom.StatusWaiting)
	must(d.CancelTree(d.ctx, run, ann()))(t)
	wantRun(d, child.Run.ID, mailroom.StatusCancelled)
}

func TestACancelWithChildrenReachesThroughOnesThatEndedButStopsNoDelivery(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	out := d.submit(text("p", "go"))
	chat := "chat"
	must(d.PatchThread(d.ctx, "p", thread.Patch{DeliverTo: &chat}))(t)
	p := d.claimIn("p")
	d.mustSend(p.Claim, mailroom.Send{Name: "help", Thread: "c"})
	c := d.claimIn("c")
	d.mustSend(c.Claim, mailroom.Send{Name: "more", Thread: "g"})
	d.settle(complete(c.Claim, "handed on"))
	must(d.CancelTree(d.ctx, out.Run, ann()))(t)
	d.settle(release(p.Claim))
	must(d.CancelTree(d.ctx, out.Run, ann()))(t)
	for _, w := range d.claim("w", 5) {
		wantEqual(t, "what goes on", w.Claim.Thread, "chat")
		d.settle(complete(w.Claim, "shown"))
	}
	wantEqual(t, "chat", d.thread("chat") != nil, true)
	wantEqual(t, "grandchild", d.kinds("g"), "message, run.queued, run.cancelled")
}

func TestRepliesQuestionsAndEndsAreDeliveredOnce(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("p", "go"))
	chat := "chat"
	must(d.PatchThread(d.ctx, "p", thread.Patch{DeliverTo: &chat}))(t)
	p := d.claimIn("p")
	s := park(p.Claim, nil, approval("ok"))
	s.Message = partialText(p.Claim, "may I?")
	s.Number = 1
	d.settle(s)
	d.settle(s) // a repeat
	wantEqual(t, "messages", d.count("chat", entry.KindMessage), 2)
	d.decide(p.Run.ID, "ok", mailroom.VerdictDeny)
	wantEqual(t, "delivered in order", len(d.serveOne("chat")), 1)
	must(d.Interrupt(d.ctx, "p", ann()))(t)
	d.submit(text("p", "again"))
	wantEqual(t, "messages", d.count("chat", entry.KindMessage), 3) // including its own message
}

func (d *fixture) count(thread, kind string) int {
	n := 0
	for _, e := range d.log(thread) {
		var m mailroom.Message
		if e.Kind == kind && (kind != entry.KindMessage || e.Decode(&m) == nil && m.Role == mailroom.RoleUser) {
			n++
		}
	}
	return n
}

// serveOne claims and completes the due run of a thread.
func (d *fixture) serveOne(id string) []thread.ClaimedRun {
	d.t.Helper()
	work := d.claim("w", 5)
	var of []thread.ClaimedRun
	for _, w := range work {
		if w.Claim.Thread == id {
			of = append(of, w)
		}
		d.settle(complete(w.Claim, "shown"))
	}
	return of
}

func TestADeliveryCommitsWithItsCauseOrNotAtAll(t *testing.T) {
	store := newControlledStore(nil)
	d := open(t, store, ledger.Options{})
	d.register("w")
	d.submit(text("p", "go"))
	chat := "chat"
	must(d.PatchThread(d.ctx, "p", thread.Patch{DeliverTo: &chat}))(t)
	p := d.claimIn("p")
	s := complete(p.Claim, "hello")
	s.Number = 1
	store.setFaults(storetest.Fault{Kind: storetest.FailBefore})
	if _, err := d.Settle(d.ctx, s); err == nil {
		t.Fatal("Settle succeeded although its commit failed")
	}
	wantRun(d, p.Run.ID, mailroom.StatusRunning)
	if d.thread("chat") != nil {
		t.Error("a reply was delivered although its settle failed")
	}
	d.settle(s)
	wantEqual(t, "deliveries", d.count("chat", entry.KindMessage), 1)
}

func TestALostAttemptCannotWriteTheStateOfItsThread(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w", "z")
	d.submit(text("t", "go"))
	zombie := d.claimOne("z")
	keep := func(c mailroom.Claim, number int, state string) error {
		_, err := d.Append(d.ctx, thread.StepCommit{Claim: c, Number: number, Step: mailroom.Step{State: []byte(state)}})
		return err
	}
	must(0, keep(zombie.Claim, 1, `{"session":1}`))(t)
	must(0, d.Deregister(d.ctx, thread.Leave{Worker: "z"}))(t)
	must(0, d.Sweep(d.ctx, ""))(t)
	work := d.claimOne("w")
	wantEqual(t, "state", string(work.Thread.State["echo"]), `{"session":1}`)
	wantCode(t, keep(zombie.Claim, 2, `{"session":2}`), mailroom.CodeLeaseLost)
	must(0, keep(work.Claim, 2, `{"session":3}`))(t)
	d.settle(complete(work.Claim, "done"))
	d.submit(text("t", "next"))
	next := d.claimOne("w")
	wantEqual(t, "state", string(next.Thread.State["echo"]), `{"session":3}`)
	d.settle(complete(next.Claim, "done"))
}

// A message that joined a run becomes a separate run only if that run ends without reading it.
func TestANameWhoseMessageJoinedARunIsBoundToItsThread(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("b", "go"))
	waits := d.claimIn("b")
	d.settle(park(waits.Claim, nil, mailroom.Ask{Name: "later", Kind: mailroom.TicketTimer,
		Expires: time.Now().Add(time.Hour)}))
	d.submit(text("p", "go"))
	p := d.claimIn("p")
	send := mailroom.Send{Name: "help", Thread: "b"}
	d.mustSend(p.Claim, send)
	send.Thread = "c"
	wantCode(t, d.send(p.Claim, send), mailroom.CodeConflict)
	must(d.Interrupt(d.ctx, "b", ann()))(t)
	wantEqual(t, "log of the other thread", d.kinds("c"), "")
	d.settle(complete(p.Claim, "done"))
}
