package thread

import (
	"errors"
	"fmt"
	"time"

	"mailroom"
)

// Revoke takes the claim of the current run away from a worker that did not settle it.
type Revoke struct {
	Cause     RevokeCause
	Worker    string       // holder of the claim; not with RevokeOverdue
	Uncharged bool         // with RevokeDead: the claim does not count as a crash of the run
	Round     int64        // with RevokeUnheld: the claim is of this round or an earlier one
	Text      *PartialText // flushed text of the run, see [Partials.Text]; with RevokeDead and RevokeOverdue
}

// RevokeCause is why a claim is taken away.
type RevokeCause int

const (
	RevokeDead      RevokeCause = iota // the worker of the claim is dead
	RevokeOverdue                      // the run has outlived its ClaimEnds
	RevokeUnheld                       // the worker does not know the claim, because the answer to its request was lost
	RevokeUnentered                    // the worker leaves and has never begun to work on the claim
)

// errOverrun is the failure of a run whose claim was overdue.
var errOverrun = errors.New("run deadline exceeded; its worker did not end the attempt")

// matches reports whether the cause applies to the claim of the running run r.
func (in *Revoke) matches(row *mailroom.Thread, r *mailroom.Run, now time.Time) bool {
	switch in.Cause {
	case RevokeOverdue:
		return isOverdue(r, now)
	case RevokeUnheld:
		return row.Worker == in.Worker && row.Round <= in.Round
	}
	return row.Worker == in.Worker
}

// followUp decides what follows the lost attempt of a run that was not asked to stop.
func (in *Revoke) followUp(r *mailroom.Run, now time.Time) followUp {
	switch in.Cause {
	case RevokeOverdue:
		return afterFailure(r, &mailroom.Failure{Class: mailroom.ClassTransient, Err: errOverrun}, 0, now)
	case RevokeUnheld:
		// true: the worker may have started the run, and its settle did not arrive.
		return afterRelease(r, true, now)
	case RevokeUnentered:
		return afterRelease(r, false, now)
	}
	return afterLostClaim(r, !in.Uncharged, now)
}

// outcome and class of the attempt that ends.
func (in *Revoke) outcome() Outcome {
	switch in.Cause {
	case RevokeOverdue:
		return OutcomeFail
	case RevokeUnheld, RevokeUnentered:
		return OutcomeRelease
	}
	return OutcomeLost
}

func (in *Revoke) class() mailroom.Class {
	if in.Cause == RevokeOverdue {
		return mailroom.ClassTransient
	}
	return ""
}

// Revoke reports whether the thread has a claim that in describes, and if so takes it away.
func (t *State) Revoke(in Revoke, now time.Time) bool {
	r := t.current()
	if r == nil || r.Status != mailroom.StatusRunning || !in.matches(&t.Thread, r, now) {
		return false
	}
	t.Attempts.end(r, in.outcome(), in.class())
	t.promote(now)
	t.appendMessage(r, in.Text, mailroom.VisibleAll, true, now)
	switch {
	case endedByBudget(r, now) && in.Cause == RevokeOverdue:
		askRaise(t, r, now)
	case r.Stop == mailroom.ReasonBudget:
		r.Stop = "" // the next claim asks for a raise
		t.follow(r, in.followUp(r, now), now)
	case r.Stop != "":
		forced := in.Cause == RevokeOverdue // the worker had its time to stop
		t.finish(r, stopped(r, forced), now)
	default:
		t.follow(r, in.followUp(r, now), now)
	}
	t.schedule(now)
	return true
}

// isOverdue reports whether the claim of a running run has outlived ClaimEnds.
func isOverdue(r *mailroom.Run, now time.Time) bool {
	return !r.ClaimEnds.IsZero() && !r.ClaimEnds.After(now)
}

// Extend moves the end of an overdue claim to until. It is for the claims of the caller's own
// worker, which ends its runs itself by a clock that stands still while the machine sleeps.
func (t *State) Extend(until, now time.Time) {
	r := t.current()
	if r == nil || r.Status != mailroom.StatusRunning || !isOverdue(r, now) {
		return
	}
	t.promote(now)
	r.ClaimEnds = until
	t.touchRun(r)
	t.schedule(now)
}

// FailOrphaned fails the due run with the Due.Agent due, because no worker serves its agent. It reports whether
// there was such a run.
func (t *State) FailOrphaned(due string, now time.Time) bool {
	r := t.nextRun(now)
	orphaned := r != nil && dueAgent(&t.Thread, r.Agent) == due
	if orphaned {
		t.follow(r, deadLetter(mailroom.ClassPermanent, fmt.Sprintf("no worker serves agent %q", r.Agent)), now)
	}
	t.schedule(now)
	return orphaned
}

// FreeSession lets any server start the due run with the Due.Agent due, although one server keeps a session of its
// agent. It reports whether only that server could start the run before.
func (t *State) FreeSession(due string, now time.Time) bool {
	agent, node := ParseDueAgent(due)
	if t.Due.Agent != due || t.Nodes[agent] != node {
		return false
	}
	keepSession(&t.Thread, agent, "")
	t.schedule(now)
	return true
}
