package thread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/internal/check"
	"mailroom/store"
)

// BudgetTicket begins the names of the tickets that the server opens when the budget of a run is spent. Agents cannot
// open tickets with such names.
const BudgetTicket = "mailroom.budget/"

// BudgetAction is the action of these tickets.
const BudgetAction = "budget.raise"

// budgetAnswer is how long the question whether to raise a budget waits for its answer.
const budgetAnswer = 24 * time.Hour

// LeaseEnd returns what a run leaves of the part of a budget that another run lent it.
type LeaseEnd struct {
	Thread, Run string           // of the lender
	Child       string           // the run that has ended
	Part        mailroom.Amounts // as it was lent
	Used        mailroom.Amounts // of it, and perhaps beyond it
}

// checkBudget validates the budget of a submit, and brings its time into the precision of stores.
func checkBudget(b *mailroom.Budget) error {
	if b.IsZero() {
		return nil
	}
	b.Until = b.Until.UTC().Truncate(time.Microsecond)
	if err := b.Check(); err != nil {
		return check.Invalid("budget", err.Error(), b.String())
	}
	return nil
}

// budget returns the budget of the run that the submit creates, or nil. It refuses one that leaves no time.
func (s *submission) budget() (*mailroom.RunBudget, error) {
	in := s.in
	if in.lease != nil {
		return in.lease, nil
	}
	if in.Budget.IsZero() {
		if b := s.found.Budget; !b.IsZero() {
			return &mailroom.RunBudget{Limit: b, Grant: b}, nil
		}
		return nil, nil
	}
	switch at := in.Budget.Until; {
	case at.IsZero():
	case !at.After(s.now):
		return nil, check.Invalid("budget.until", "has passed; give a later time", at.Format(time.RFC3339Nano))
	case !at.After(in.NotBefore):
		return nil, check.Invalid("budget.until",
			fmt.Sprintf("is not after not_before, %s", in.NotBefore.Format(time.RFC3339)), at.Format(time.RFC3339Nano))
	}
	return &mailroom.RunBudget{Limit: in.Budget, Grant: in.Budget}, nil
}

// Lend takes the parts of the sends of a step from what run r has left of its budget, and gives them to the submits
// of the sends. known says which sends were made before: those get nothing again. It refuses a part that does not fit.
// A send of a run without a budget has its own.
func Lend(r *mailroom.Run, sends []mailroom.Send, in []Submit, known []bool) error {
	if r.Budget == nil {
		return nil // the submits have the budgets of the sends
	}
	if r.Budget.Closed && slices.Contains(known, false) {
		return check.Invalid("sends", "are refused: nothing is left of the budget of the run", "")
	}
	limit, taken := r.Budget.Limit, r.UsedInAll().Plus(r.Budget.Lent)
	share := shares(limit, taken, sends, known)
	for i, s := range sends {
		if known[i] {
			continue
		}
		part := s.Budget
		part.Amounts = fill(part.Amounts, limit.Of(share))
		if part.Until.IsZero() {
			part.Until = limit.Until
		}
		if bound := limit.Fits(part, taken); bound != "" {
			left := mailroom.Budget{Amounts: limit.Left(taken).Positive(), Until: limit.Until}
			return check.Invalid(fmt.Sprintf("sends[%d].budget", i), fmt.Sprintf(
				"takes more %s than the run has left: of its budget are left %s", bound, left), part.String())
		}
		lent := limit.Of(part.Amounts)
		taken = taken.Plus(lent)
		in[i].lease = &mailroom.RunBudget{Limit: part, Grant: part, Lender: r.ID, LenderThread: r.Thread, Part: lent}
	}
	return nil
}

// shares returns the part of each bound that a new send gets which gives none: an equal share, among those sends, of
// half of what is left after the given parts, and at least 1.
func shares(limit mailroom.Budget, taken mailroom.Amounts, sends []mailroom.Send, known []bool) mailroom.Amounts {
	left := limit.Left(taken)
	var n mailroom.Amounts
	for i, s := range sends {
		if known[i] {
			continue
		}
		left = left.Minus(s.Budget.Amounts)
		n = n.Plus(mailroom.Amounts{MicroUSD: isZero(s.Budget.MicroUSD), Tokens: isZero(s.Budget.Tokens),
			Turns: isZero(s.Budget.Turns)})
	}
	of := func(left, n int64) int64 { return max(1, left/2/max(1, n)) }
	return mailroom.Amounts{MicroUSD: of(left.MicroUSD, n.MicroUSD), Tokens: of(left.Tokens, n.Tokens),
		Turns: of(left.Turns, n.Turns)}
}

func isZero(n int64) int64 {
	if n == 0 {
		return 1
	}
	return 0
}

// fill returns a with the members of b where a has none.
func fill(a, b mailroom.Amounts) mailroom.Amounts {
	if a.MicroUSD == 0 {
		a.MicroUSD = b.MicroUSD
	}
	if a.Tokens == 0 {
		a.Tokens = b.Tokens
	}
	if a.Turns == 0 {
		a.Turns = b.Turns
	}
	return a
}

// changeBudget replaces the budget of r by a changed copy.
func changeBudget(t *State, r *mailroom.Run, change func(b *mailroom.RunBudget)) {
	b := *r.Budget
	change(&b)
	r.Budget = &b
	t.touchRun(r)
}

// lent charges r with what its sends lent.
func lent(t *State, r *mailroom.Run, sent []store.Submitted) {
	var sum mailroom.Amounts
	for _, s := range sent {
		sum = sum.Plus(s.Lent)
	}
	if sum != (mailroom.Amounts{}) {
		changeBudget(t, r, func(b *mailroom.RunBudget) { b.Lent = b.Lent.Plus(sum) })
	}
}

// spend counts the usage of a step, which applyStep has added to the run. It says in the log when the budget is low,
// and asks the attempt to stop when it is spent.
//
// A step without usage never stops an attempt: a run that has lent all that it had may wait for what comes back.
//
// A step whose cost is not known spends a budget in dollars: otherwise the bound would never be reached.
func spend(t *State, r *mailroom.Run, a *StepCommit, now time.Time) {
	if a.Step.Usage == (mailroom.Usage{}) {
		return
	}
	r.Turns++
	spendThread(t, r, a, now)
	if a.Unpriced && r.Budget != nil && r.Budget.Limit.MicroUSD > 0 {
		changeBudget(t, r, func(b *mailroom.RunBudget) { b.Unpriced = true })
	}
	noteLow(t, r, now)
	if bound := r.OverBudget(now); bound != "" {
		stopForBudget(t, r, budgetState(r, bound), now)
	}
}

// noteLow says once, and after each raise once more, that 80 % of the budget of r are spent.
func noteLow(t *State, r *mailroom.Run, now time.Time) {
	if r.Budget == nil || r.Budget.Low || r.Budget.Closed {
		return
	}
	if bound := r.Budget.Limit.Low(r.UsedInAll()); bound != "" {
		changeBudget(t, r, func(b *mailroom.RunBudget) { b.Low = true })
		t.append(entry.KindBudgetLow, r, now, budgetState(r, bound))
	}
}

func budgetState(r *mailroom.Run, bound string) entry.BudgetState {
	s := entry.BudgetState{Bound: bound, Budget: r.Budget.Limit, Spent: r.UsedInAll(), Lent: r.Budget.Lent}
	if r.Budget.Unpriced {
		s.Unpriced = cmp.Or(r.Usage.Model, "unknown")
	}
	return s
}

// stopForBudget asks the running attempt of r to stop, unless it was asked to stop before.
func stopForBudget(t *State, r *mailroom.Run, s entry.BudgetState, now time.Time) {
	if r.Stop != "" || r.Status != mailroom.StatusRunning {
		return
	}
	r.Stop = mailroom.ReasonBudget
	boundByGrace(r, now)
	t.touchRun(r)
	t.append(entry.KindBudgetSpent, r, now, s)
}

// endedByBudget reports whether the end of the attempt of r at now is one of its budget: the attempt was asked to stop
// for it, or its time has come.
func endedByBudget(r *mailroom.Run, now time.Time) bool {
	return r.Stop == mailroom.ReasonBudget || r.Stop == "" && r.OverBudget(now) == "until"
}

// boundClaim ends the claim of r when the time of its budget comes.
func boundClaim(r *mailroom.Run) {
	if r.Budget == nil || r.Budget.Limit.Until.IsZero() {
		return
	}
	until := r.Budget.Limit.Until.Add(r.StopGrace)
	if r.ClaimEnds.IsZero() || until.Before(r.ClaimEnds) {
		r.ClaimEnds, r.ClaimSpare = until, 0
	}
	r.ClaimSpare = min(r.ClaimSpare, until.Sub(r.ClaimEnds))
}

// askRaise parks the run, whose attempt has ended, until someone has decided whether to raise its budget. The run ends
// with what it has if the question expires. A run that was stopped for a budget of its thread returns to the queue.
func askRaise(t *State, r *mailroom.Run, now time.Time) {
	bound := r.OverBudget(now)
	if bound == "" {
		r.Stop = ""
		t.follow(r, afterRelease(r, false, now), now)
		return
	}
	r.Stop = ""
	changeBudget(t, r, func(b *mailroom.RunBudget) { b.Asks++ })
	raise := nextRaise(r)
	args, err := json.Marshal(struct {
		Raise   mailroom.Amounts `json:"raise"`
		ExtendS int64            `json:"extend_s,omitempty"`
		entry.BudgetState
	}{raise, int64(extension(r, now) / time.Second), budgetState(r, bound)})
	if err != nil {
		panic(err) // numbers and checked times
	}
	by := raise.String()
	if d := extension(r, now); d > 0 && raise == (mailroom.Amounts{}) {
		by = d.String()
	} else if d > 0 {
		by += " and " + d.String()
	}
	ask := mailroom.Ask{
		Name: fmt.Sprint(BudgetTicket, r.Budget.Asks), Kind: mailroom.TicketApproval, Action: BudgetAction,
		Arguments: args, After: budgetAnswer,
		Prompt: fmt.Sprintf("%s Raise it by %s?", whySpent(r), by),
	}
	t.park(r, &Settle{Wait: &mailroom.Wait{Names: []string{ask.Name}}, asks: digestAsks([]mailroom.Ask{ask})}, now)
}

// whySpent returns why the run asks, as people read it.
func whySpent(r *mailroom.Run) string {
	used := fmt.Sprintf("it has used %s of %s.", r.Budget.Limit.Of(r.UsedInAll()), r.Budget.Limit)
	switch {
	case !r.Budget.Unpriced:
		return fmt.Sprintf("The budget of this run of agent %s is spent: %s", r.Agent, used)
	case r.Usage.Model == "":
		return fmt.Sprintf("The budget of this run of agent %s counts dollars, and the agent does not say which model it "+
			"uses, so that its cost is not known. Without that %s", r.Agent, used)
	}
	return fmt.Sprintf("The budget of this run of agent %s counts dollars, and the price of the model %q is not known: "+
		"add [prices.%q] to the configuration. Without its cost %s", r.Agent, r.Usage.Model, r.Usage.Model, used)
}

// nextRaise returns by how much the question asks to raise the budget of r: by its grant, as often as the run needs it
// to go on, and at most [budget.MaxRaise] of each bound.
func nextRaise(r *mailroom.Run) mailroom.Amounts {
	b := r.Budget
	if b.Closed {
		return b.Grant.Amounts
	}
	over := r.UsedInAll().Plus(b.Lent).Minus(b.Limit.Amounts)
	times := int64(0)
	g := b.Grant.Amounts
	for _, x := range [][2]int64{{over.MicroUSD, g.MicroUSD}, {over.Tokens, g.Tokens}, {over.Turns, g.Turns}} {
		if x[1] > 0 && x[0] >= 0 {
			times = max(times, x[0]/x[1]+1)
		}
	}
	if b.Unpriced {
		times = max(times, 1)
	}
	return mailroom.Amounts{MicroUSD: budget.Multiple(g.MicroUSD, times), Tokens: budget.Multiple(g.Tokens, times),
		Turns: budget.Multiple(g.Turns, times)}
}

// extension returns by how much the time of the budget of r is extended: by as much as the run had at first, if that
// has passed.
func extension(r *mailroom.Run, now time.Time) time.Duration {
	b := r.Budget
	if b.Limit.Until.IsZero() || b.Limit.Until.After(now) {
		return 0
	}
	return max(time.Minute, b.Grant.Until.Sub(r.CreatedAt).Round(time.Second))
}

// isBudgetTicket reports whether the server opened k because a budget was spent.
func isBudgetTicket(k *mailroom.Ticket) bool { return strings.HasPrefix(k.Name, BudgetTicket) }

// decideBudget raises the budget of r if its question was approved, and otherwise ends the run with what it has.
func decideBudget(t *State, r *mailroom.Run, k *mailroom.Ticket, now time.Time) {
	if k.Decision != mailroom.VerdictApprove {
		t.finish(r, spent(r), now)
		return
	}
	var asked struct {
		Raise   mailroom.Amounts `json:"raise"`
		ExtendS int64            `json:"extend_s"`
	}
	if err := json.Unmarshal(k.Arguments, &asked); err != nil {
		panic(err) // askRaise wrote them
	}
	changeBudget(t, r, func(b *mailroom.RunBudget) {
		if b.Closed { // nothing is left of what it had
			b.Limit.Amounts = b.Limit.Of(r.UsedInAll().Plus(b.Lent))
		}
		b.Limit.Amounts = b.Limit.Plus(asked.Raise)
		b.Raised = b.Raised.Plus(asked.Raise)
		if asked.ExtendS > 0 {
			b.Limit.Until = now.Add(time.Duration(asked.ExtendS) * time.Second)
		}
		b.WasUnpriced = b.WasUnpriced || b.Unpriced
		b.Low, b.Closed, b.Unpriced = false, false, false
	})
	t.append(entry.KindBudgetRaised, r, now,
		entry.BudgetRaised{By: k.DecidedBy, Raise: asked.Raise, Budget: r.Budget.Limit})
}

// spent is the end of a run whose budget was spent and not raised: it has completed, with the result that it had.
func spent(r *mailroom.Run) ending {
	e := completed(r)
	e.reason = mailroom.ReasonBudget
	e.body = entry.RunCompleted{Reply: r.Reply, Steps: r.Step, Usage: r.Usage, Reason: mailroom.ReasonBudget}
	return e
}

// returnLease gives what an ending run leaves of its part back to its lender. What the run has lent to runs that are
// still open counts as used: it never comes back. A run that its lender wakes keeps the rest instead, see reportEnd.
func returnLease(t *State, r *mailroom.Run) {
	b := r.Budget
	wakes := r.Caller != nil && r.Caller.Answer == mailroom.AnswerWake
	if b == nil || b.Lender == "" && !wakes {
		return
	}
	used := r.UsedInAll().Plus(b.Lent).Minus(b.Raised).Positive()
	if b.Unpriced || b.WasUnpriced { // perhaps all of its dollars
		used.MicroUSD = max(used.MicroUSD, b.Part.MicroUSD)
	}
	if wakes {
		used = atLeast(used, b.Part)
	}
	if b.Lender != "" {
		t.Outbox.leases = append(t.Outbox.leases,
			LeaseEnd{Thread: b.LenderThread, Run: b.Lender, Child: r.ID, Part: b.Part, Used: used})
	}
	changeBudget(t, r, func(b *mailroom.RunBudget) {
		b.Lender, b.LenderThread, b.Part, b.Closed = "", "", mailroom.Amounts{}, true
	})
}

// atLeast returns the larger one of each member.
func atLeast(a, b mailroom.Amounts) mailroom.Amounts {
	return mailroom.Amounts{MicroUSD: max(a.MicroUSD, b.MicroUSD), Tokens: max(a.Tokens, b.Tokens),
		Turns: max(a.Turns, b.Turns)}
}

// heir returns the budget of the run that the end of r wakes: what is left of the budget of r.
func heir(r *mailroom.Run) *mailroom.RunBudget {
	left := r.BudgetLeft()
	if left == nil {
		return nil
	}
	b := &mailroom.RunBudget{Limit: *left, Grant: r.Budget.Grant}
	if r.Budget.Closed || r.Budget.Unpriced || r.Budget.Limit.Over(r.UsedInAll().Plus(r.Budget.Lent)) != "" {
		b.Limit, b.Closed = r.Budget.Grant, true
	}
	return b
}

// OnLeaseEnd takes back what is left of a part that a run of t lent. If the run has ended, its lender has counted the
// part as used.
func OnLeaseEnd(t *State, e LeaseEnd, now time.Time) {
	r := t.Run(e.Run)
	if r == nil || r.Budget == nil {
		return
	}
	t.promote(now)
	changeBudget(t, r, func(b *mailroom.RunBudget) {
		b.Lent, b.Below = b.Lent.Minus(e.Part), b.Below.Plus(e.Used)
	})
	if !r.Status.Finished() {
		noteLow(t, r, now)
	}
	switch {
	case r.Status == mailroom.StatusRunning:
		if bound := r.Budget.Limit.Over(r.UsedInAll()); bound != "" {
			stopForBudget(t, r, budgetState(r, bound), now)
		}
	case r.Status == mailroom.StatusWaiting && r.OverBudget(now) == "":
		answerAsk(t, r, "run:"+e.Child, now)
	}
	t.schedule(now)
}

// answerAsk lets a run that waits for a raise go on without one, because enough came back.
func answerAsk(t *State, r *mailroom.Run, by string, now time.Time) {
	for _, k := range t.Tickets.of(r.ID) {
		if isBudgetTicket(k) && isOpen(k, now) {
			recordDecision(t, r, k, Decision{Verdict: mailroom.VerdictApprove, By: by,
				Reason: "enough of the budget came back; it is not raised"}, now)
			t.requeue(r, now)
		}
	}
}
