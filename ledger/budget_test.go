package ledger_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// budgeted submits a message to thread "p" with a budget, and claims its run.
func (d *fixture) budgeted(budget string) thread.ClaimedRun {
	d.t.Helper()
	in := text("p", "go")
	in.Budget = must(mailroom.ParseBudget(budget))(d.t)
	d.submit(in)
	return d.claimIn("p")
}

// consume commits a step that used so many tokens and dollars, as one call of a model.
func (d *fixture) consume(c mailroom.Claim, tokens int64, usd float64) {
	d.t.Helper()
	must(d.Append(d.ctx, thread.StepCommit{Claim: c, Number: d.run(c.Run).Step + 1,
		Step: mailroom.Step{Usage: mailroom.Usage{InputTokens: tokens, CostUSD: usd}}}))(d.t)
}

func (d *fixture) raise(run string, n string, v mailroom.Verdict) {
	d.t.Helper()
	d.decide(run, thread.BudgetTicket+n, v)
}

func tokens(n int64) mailroom.Amounts { return mailroom.Amounts{Tokens: n} }

func TestASpentBudgetStopsTheAttemptAndAsksForARaise(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	p := d.budgeted("1000 tokens")
	d.consume(p.Claim, 799, 0)
	wantEqual(t, "entries", strings.Contains(d.kinds("p"), "budget."), false)
	d.consume(p.Claim, 1, 0)
	d.consume(p.Claim, 150, 0)
	wantEqual(t, "stop before the end", d.run(p.Run.ID).Stop, "")
	d.consume(p.Claim, 90, 0)
	wantEqual(t, "stop", d.run(p.Run.ID).Stop, mailroom.ReasonBudget)
	said := d.kinds("p")
	wantEqual(t, "entries that say so", strings.Count(said, "budget.low")+strings.Count(said, "budget.spent"), 2)
	d.settle(release(p.Claim))
	wantRun(d, p.Run.ID, mailroom.StatusWaiting)
	k := d.ticket(p.Run.ID, thread.BudgetTicket+"1")
	wantEqual(t, "kind and action", []string{string(k.Kind), k.Action}, []string{"approval", thread.BudgetAction})
	if !strings.Contains(k.Prompt, "used 1040 tokens of 1k tokens. Raise it by 1k tokens?") {
		t.Errorf("the question is %q", k.Prompt)
	}
	_, err := d.Decide(d.ctx, thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictApprove, By: "ann"})
	wantCode(t, err, mailroom.CodeInvalid) // without the digest, the amount was not shown
	d.raise(p.Run.ID, "1", mailroom.VerdictApprove)
	wantEqual(t, "left", d.run(p.Run.ID).BudgetLeft().Amounts, tokens(960))
	p = d.claimIn("p")
	d.consume(p.Claim, 5000, 0)
	d.settle(release(p.Claim))
	k = d.ticket(p.Run.ID, thread.BudgetTicket+"2")
	if !strings.Contains(k.Prompt, "Raise it by 5k tokens?") { // by less it could not go on
		t.Errorf("the second question is %q", k.Prompt)
	}
	d.raise(p.Run.ID, "2", mailroom.VerdictDeny)
	r := wantRun(d, p.Run.ID, mailroom.StatusCompleted)
	wantEqual(t, "reason", r.Reason, mailroom.ReasonBudget)
}

func TestAQuestionForARaiseExpiresAndTheRunKeepsItsPartialResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		p := d.budgeted("1 turn")
		must(d.Append(d.ctx, thread.StepCommit{Claim: p.Claim, Number: 1, Message: partialText(p.Claim, "so far"),
			Step: mailroom.Step{Usage: mailroom.Usage{OutputTokens: 5}}}))(t)
		d.settle(failure(p.Claim, mailroom.ClassTransient))
		r := wantRun(d, p.Run.ID, mailroom.StatusWaiting)
		wantEqual(t, "failures", r.Failures, 0)
		<-time.After(25 * time.Hour)
		d.register("w2")
		wantEqual(t, "runs started", len(d.claim("w2", 1)), 0)
		r = wantRun(d, p.Run.ID, mailroom.StatusCompleted)
		wantEqual(t, "reason and reply", []string{string(r.Reason), *r.Reply}, []string{"budget", "so far"})
	})
}

func TestARunThatIsDoneWithItsLastTurnAsksNothing(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	p := d.budgeted("$1")
	d.consume(p.Claim, 0, 1.5)
	d.settle(complete(p.Claim, "done"))
	r := wantRun(d, p.Run.ID, mailroom.StatusCompleted)
	wantEqual(t, "reason and questions", []any{r.Reason, r.Asked}, []any{mailroom.Reason(""), 0})
}

func TestACancelEndsARunThatWasStoppedForItsBudget(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	p := d.budgeted("1 turn")
	d.consume(p.Claim, 1, 0)
	must(d.Cancel(d.ctx, p.Run.ID, "ann"))(t)
	d.settle(release(p.Claim))
	wantEqual(t, "reason", wantRun(d, p.Run.ID, mailroom.StatusCancelled).Reason, mailroom.ReasonCancelled)
}

func TestAPartOfABudgetIsLentOnceAndComesBackOnce(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	p := d.budgeted("1000 tokens, $2")
	ask := mailroom.Send{Name: "a", Thread: "a", Answer: mailroom.AnswerWait,
		Budget: mailroom.Budget{Amounts: tokens(300)}}
	d.mustSend(p.Claim, ask)
	wantEqual(t, "lent", d.run(p.Run.ID).Budget.Lent, mailroom.Amounts{Tokens: 300, MicroUSD: 1_000_000})
	child := d.run(d.sent(p, ask))
	wantEqual(t, "budget of the child", child.Budget.Limit.String(), "1.00 usd, 300 tokens")

	// A later attempt sends it again.
	d.settle(failure(p.Claim, mailroom.ClassUnavailable))
	c := d.claimIn("a")
	d.consume(c.Claim, 100, 0.25)
	d.settle(complete(c.Claim, "here"))
	r := d.run(p.Run.ID)
	wantEqual(t, "lent after the end", r.Budget.Lent, mailroom.Amounts{})
	wantEqual(t, "left after the end", r.BudgetLeft().Amounts, mailroom.Amounts{Tokens: 900, MicroUSD: 1_750_000})
	if child = d.run(child.ID); child.Budget.Lender != "" || !child.Budget.Closed {
		t.Errorf("the child has ended and kept %+v", child.Budget)
	}
}

func TestARepeatedSendLendsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		p := d.budgeted("10 turns")
		s := mailroom.Send{Name: "a", Thread: "a", Budget: mailroom.Budget{Amounts: mailroom.Amounts{Turns: 10}},
			Delay: time.Hour}
		d.mustSend(p.Claim, s)
		d.mustSend(p.Claim, s) // nothing is left, and it needs nothing
		d.settle(failure(p.Claim, mailroom.ClassTransient))
		<-time.After(10 * time.Second)
		d.renew("w", 1)
		// All is lent, so that another attempt could do nothing.
		wantEqual(t, "runs started", len(d.claim("w", 1)), 0)
		wantRun(d, p.Run.ID, mailroom.StatusWaiting)
		must(d.Cancel(d.ctx, d.sent(p, s), "ann"))(t) // the part comes back, and the question is answered
		p = d.claimIn("p")
		d.mustSend(p.Claim, s)
		wantEqual(t, "lent", d.run(p.Run.ID).Budget.Lent, mailroom.Amounts{})
		wantEqual(t, "runs", len(d.allRunsOf("a")), 1)
	})
}

func TestAPartThatIsLargerThanWhatIsLeftIsRefused(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	p := d.budgeted("1000 tokens")
	d.consume(p.Claim, 400, 0)
	err := d.send(p.Claim, mailroom.Send{Name: "a", Budget: mailroom.Budget{Amounts: tokens(601)}})
	wantCode(t, err, mailroom.CodeInvalid)
	if !strings.Contains(err.Error(), "takes more tokens than the run has left: of its budget are left 600 tokens") {
		t.Errorf("the refusal is %q", err)
	}
	d.mustSend(p.Claim, mailroom.Send{Name: "a", Budget: mailroom.Budget{Amounts: tokens(600)}})
	wantCode(t, d.send(p.Claim, mailroom.Send{Name: "b"}), mailroom.CodeInvalid)
	wantEqual(t, "stop of a run that has lent all", d.run(p.Run.ID).Stop, "")
}

func TestSendsWithoutAPartShareHalfOfWhatIsLeft(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	p := d.budgeted("1000 tokens")
	step := mailroom.Step{}
	for _, name := range []string{"a", "b", "c"} {
		step.Sends = append(step.Sends, mailroom.Send{Name: name, Thread: name, Parts: mailroom.Text("help")})
	}
	step.Sends[0].Budget.Tokens = 200
	must(d.Append(d.ctx, thread.StepCommit{Claim: p.Claim, Number: 1, Step: step}))(t)
	wantEqual(t, "parts", []int64{d.run(d.sent(p, step.Sends[0])).Budget.Limit.Tokens,
		d.run(d.sent(p, step.Sends[1])).Budget.Limit.Tokens}, []int64{200, 200})
	wantEqual(t, "lent", d.run(p.Run.ID).Budget.Lent, tokens(600))
	// What an ended lender has lent does not come back.
	d.settle(complete(p.Claim, "done"))
	wantEqual(t, "started", len(d.claim("w", 3)), 3)
}

func TestTheTimeOfABudgetEndsTheRunLikeItsAmount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		in := text("p", "go")
		in.Budget = mailroom.Budget{Until: time.Now().Add(time.Minute)}
		in.NotBefore = time.Now().Add(2 * time.Minute)
		_, err := d.Submit(d.ctx, in)
		wantCode(t, err, mailroom.CodeInvalid)
		in.NotBefore = time.Time{}
		id := d.submit(in).Run
		p := d.claimIn("p")
		if ends := d.run(id).ClaimEnds; ends.After(time.Now().Add(time.Minute + d.run(id).StopGrace)) {
			t.Errorf("the claim ends at %v", ends)
		}
		<-time.After(time.Minute)
		d.settle(failure(p.Claim, mailroom.ClassTransient))
		wantRun(d, id, mailroom.StatusWaiting)
		d.raise(id, "1", mailroom.VerdictApprove)
		<-time.After(2 * time.Minute) // too late again, before it starts
		d.register("w2")
		wantEqual(t, "runs started", len(d.claim("w2", 1)), 0)
		wantEqual(t, "state of the second question", d.ticket(id, thread.BudgetTicket+"2").State, mailroom.TicketOpen)
	})
}

func TestARetriedChildHasNothingLeftUntilItIsRaised(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	p := d.budgeted("1000 tokens")
	s := mailroom.Send{Name: "a", Thread: "a", Answer: mailroom.AnswerWait}
	d.mustSend(p.Claim, s)
	c := d.claimIn("a")
	d.settle(failure(c.Claim, mailroom.ClassPermanent))
	wantEqual(t, "left", d.run(p.Run.ID).BudgetLeft().Amounts, tokens(1000))
	must(d.Retry(d.ctx, thread.Retry{Run: c.Run.ID, By: "ann"}))(t)
	wantEqual(t, "runs started", len(d.claim("w", 1)), 0)
	d.raise(c.Run.ID, "1", mailroom.VerdictApprove)
	wantEqual(t, "left of the child", d.run(c.Run.ID).BudgetLeft().Amounts, tokens(500))
	c = d.claimIn("a")
	d.consume(c.Claim, 600, 0)
	d.settle(complete(c.Claim, "done"))
	wantEqual(t, "left, which the raise does not touch", d.run(p.Run.ID).BudgetLeft().Amounts, tokens(1000))
}

func TestALenderDoesNotPayWhatPeopleAdded(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	p := d.budgeted("1000 tokens")
	d.mustSend(p.Claim, mailroom.Send{Name: "a", Thread: "a", Answer: mailroom.AnswerWait})
	c := d.claimIn("a")
	d.consume(c.Claim, 500, 0)
	d.settle(release(c.Claim))
	d.raise(c.Run.ID, "1", mailroom.VerdictApprove)
	c = d.claimIn("a")
	d.consume(c.Claim, 400, 0)
	d.settle(complete(c.Claim, "done"))
	wantEqual(t, "left", d.run(p.Run.ID).BudgetLeft().Amounts, tokens(600))
}

func TestARunThatAChildWakesHasWhatTheChildLeft(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	p := d.budgeted("1000 tokens")
	s := mailroom.Send{Name: "a", Thread: "a", Answer: mailroom.AnswerWake}
	d.mustSend(p.Claim, s)
	d.settle(complete(p.Claim, "later"))
	c := d.claimIn("a")
	d.consume(c.Claim, 200, 0)
	d.settle(complete(c.Claim, "news"))
	woken := d.claimIn("p")
	wantEqual(t, "budget of the woken run", woken.Run.BudgetLeft().Amounts, tokens(300))
}

func TestAnAgentCannotAskInPlaceOfTheServer(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	p := d.budgeted("1 turn")
	_, err := d.Append(d.ctx, thread.StepCommit{Claim: p.Claim, Number: 1, Step: mailroom.Step{Tickets: []mailroom.Ask{
		{Name: thread.BudgetTicket + "1", Kind: mailroom.TicketEvent}}}})
	wantCode(t, err, mailroom.CodeInvalid)
}

func TestARunHasTheBudgetThatItsAgentAndItsOwnerGiveEachRun(t *testing.T) {
	agent := budget.Limits{Run: must(mailroom.ParseBudget("$2, 1000 tokens"))(t)}
	d := open(t, nil, ledger.Options{Budgets: ledger.Budgets{Agent: map[string]budget.Limits{"echo": agent}}})
	in := account("alice", "secret")
	in.Terms.Budget.Run = must(mailroom.ParseBudget("$1, 5 turns"))(t)
	must(d.Accounts().CreateToken(d.ctx, in))(t)
	given := of("alice", "given")
	given.Budget = must(mailroom.ParseBudget("7 turns"))(t)
	other := of("alice", "other")
	other.Agent = "other"
	notice := of("alice", "note")
	notice.Agent = "alert:phone"
	for _, test := range []struct {
		in   thread.Submit
		want string
	}{
		{of("alice", "both"), "1.00 usd, 1k tokens, 5 turns"},
		{of("bob", "agent"), "2.00 usd, 1k tokens"},
		{other, "1.00 usd, 5 turns"},
		{given, "7 turns"},
	} {
		r := d.run(d.submit(test.in).Run)
		wantEqual(t, "budget in "+test.in.Thread, []string{r.Budget.Limit.String(), r.Budget.Grant.String()},
			[]string{test.want, test.want})
	}
	if b := d.run(d.submit(notice).Run).Budget; b != nil {
		t.Errorf("a part of the server has the budget %+v", b)
	}
	must(d.Register(d.ctx, store.Worker{ID: "w", Agents: []string{"echo", "other"}}))(t)
	d.round++
	claimed := must(d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Round: d.round, Slots: 9,
		Agents: map[string]int{"echo": 9, "other": 9}}))(t)
	for _, c := range claimed {
		if c.Run.Thread != "both" {
			continue
		}
		s := mailroom.Send{Name: "a", Thread: "a", Agent: "other"}
		d.mustSend(c.Claim, s) // a part of the sender's, in place of its own
		wantEqual(t, "part of a sent run", d.run(d.sent(c, s)).Budget.Limit.String(), "0.50 usd, 500 tokens, 2 turns")
		return
	}
	t.Error("no run started")
}
