package thread

import (
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/retry"
)

// Claimant identifies the worker and round of a claim and bounds how long the ledger lets the claim
// last.
type Claimant struct {
	Worker    string
	Round     int64
	Limit     time.Duration // longest time of one claim, without what its steps add; 0: no limit
	Longest   time.Duration // longest time of one claim, with what its steps add; below Limit: steps add nothing
	StopGrace time.Duration // time left after a stop; 0: unchanged
	Retry     retry.Policy  // retries of the attempt; a zero field: the default
	Meters    []string      // see mailroom.Thread.Meters
	// Admit says whether a run may start whose key has this gate. kept says that a place is kept for it. Nil: no key is
	// bounded.
	Admit func(gate string, kept bool) Admission
}

// Sweep is the request of a worker's engine for a sweep.
type Sweep struct {
	Worker string // the worker of the engine; the sweep leaves this worker's claims to the engine
	// Agents are the agents that need no worker, because their runs may wait for this engine or another one.
	Agents []string
	// Grace is how long another agent may have had no worker before its due runs fail; 0: they do not fail.
	Grace time.Duration
}

// Claim starts the next attempt of the thread's due run, for a worker that asks for runs with the Due.Agent due. If
// alone is true, only a run on its last attempt is claimed; if it is false, only a run that is not on its last
// attempt. Claim returns nil, and updates Due, if no such run is due, or if its key is full.
func (t *State) Claim(by Claimant, due string, alone bool, now time.Time) *mailroom.Run {
	since := t.Due.At
	r := t.nextRun(now)
	if r == nil || dueAgent(&t.Thread, r.Agent) != due || r.OnLastAttempt() != alone {
		t.schedule(now)
		return nil
	}
	if r.HasPassed(now) { // the deadline passed before the sweep came
		endOverdue(t, r, now)
		t.schedule(now)
		return nil
	}
	if sleepsUntil(&t.Thread).After(now) { // its ticket has just expired, or an older server has scheduled it
		t.schedule(now)
		return nil
	}
	meters := by.Meters
	if gate := gateOf(&t.Thread, r); gate != "" && by.Admit != nil {
		a := by.Admit(gate, t.Kept && t.Gate == gate)
		if !a.OK {
			holdBack(t, gate, a, now)
			return nil
		}
		if a.Meter != "" {
			meters = append(meters[:len(meters):len(meters)], a.Meter)
		}
	}
	t.Gate, t.Kept, t.Paced = "", false, false
	kind, body := entry.KindStarted, entry.RunStarted{Worker: by.Worker, Messages: markRead(r)}
	if r.Resumes {
		kind = entry.KindResumed
		body.Tickets = t.Tickets.answered(r)
	}
	if r.Outages > 0 { // time in the queue does not count as outage
		r.OutageSince = r.OutageSince.Add(now.Sub(r.AvailableAt))
	}
	r.Status, r.Started, r.Resumes, r.Wait, r.LastError = mailroom.StatusRunning, true, false, nil, nil
	r.Attempt++
	if r.StartedAt.IsZero() {
		r.StartedAt, r.StartDelay = now, max(0, now.Sub(r.AvailableAt))
	}
	if by.Limit > 0 {
		r.ClaimEnds = now.Add(by.Limit.Truncate(time.Microsecond))
		r.ClaimSpare = max(0, by.Longest-by.Limit)
	}
	r.StopGrace = by.StopGrace.Truncate(time.Microsecond)
	boundClaim(r)
	setRetry(r, by.Retry.Over(retry.Default()))
	t.Current, t.Worker, t.Round, t.Meters = r.ID, by.Worker, by.Round, meters
	t.known.takeInputText(r)
	t.touchRun(r)
	t.append(kind, r, now, body)
	t.Attempts.start(r, since, now)
	t.note(r, now)
	if r.OverBudget(now) != "" { // an attempt could do nothing
		t.Attempts.end(r, OutcomePark, "")
		askRaise(t, r, now)
		r = nil
	}
	t.schedule(now)
	return r
}

// markRead marks the messages that the run reads by being claimed and returns their seqs: its
// inputs at its first start, and after a wait the messages that arrived during the wait.
func markRead(r *mailroom.Run) []int64 {
	seqs := []int64{}
	if !r.Started {
		for _, in := range r.Inputs {
			if !in.Retracted {
				seqs = append(seqs, in.Seq)
			}
		}
	}
	if r.Resumes {
		for i := range r.Steers {
			s := &r.Steers[i]
			s.Own = nil // also of a retracted message: the rest of its submit is read here
			if !s.Read && !s.Retracted {
				s.Read = true
				seqs = append(seqs, s.Seq)
			}
		}
	}
	return seqs
}

// nextRun moves scheduled runs whose time has come to the queue, expires due tickets, and returns the run that a
// claim would start, or nil.
func (t *State) nextRun(now time.Time) *mailroom.Run {
	t.promote(now)
	t.expireTickets(now)
	if c := t.current(); c != nil {
		if c.Status == mailroom.StatusQueued && !c.AvailableAt.After(now) {
			return c
		}
		return nil
	}
	return t.Runs.queue.ready.first()
}

// claimedRun returns the run of c, or CodeLeaseLost if c no longer holds it.
func (t *State) claimedRun(c mailroom.Claim) (*mailroom.Run, error) {
	r := t.Run(c.Run)
	if r == nil || t.Current != c.Run || r.Status != mailroom.StatusRunning || r.Attempt != c.Attempt {
		return nil, mailroom.Errorf(mailroom.CodeLeaseLost, "attempt %d no longer holds run %s", c.Attempt, c.Run)
	}
	return r, nil
}

// checkAttempt returns the run of claim c, which commits the durable step number with the digest sum. repeat
// reports that the last step of the run has the same number and digest; such a repeat needs no valid claim.
func (t *State) checkAttempt(c mailroom.Claim, number int, sum string) (r *mailroom.Run, repeat bool, err error) {
	if r = t.Run(c.Run); r != nil {
		repeat, err = checkNumber(r, c, number, sum)
	}
	if repeat {
		return r, true, nil
	}
	if _, lost := t.claimedRun(c); lost != nil {
		return nil, false, lost
	}
	if err != nil {
		return nil, false, err
	}
	return r, false, nil
}

// checkNumber returns an error unless number is that of the run's next durable step. repeat reports that the step
// is a repeat of the last one, with the same digest.
func checkNumber(r *mailroom.Run, c mailroom.Claim, number int, sum string) (repeat bool, err error) {
	last := r.LastStep
	if last.Attempt == c.Attempt && last.Step == number {
		if last.Digest != sum {
			return false, mailroom.Errorf(mailroom.CodeConflict,
				"step %d of run %s was committed with other content", number, r.ID)
		}
		return true, nil
	}
	if number != r.Step+1 {
		return false, mailroom.Errorf(mailroom.CodeConflict,
			"step %d of run %s does not follow step %d", number, r.ID, r.Step)
	}
	return false, nil
}

// lengthen gives the claim of r the time that a step at now asks for, as far as the claim has it to spare. A run that
// was asked to stop gets none: it has its grace.
//
// A request beyond the bound is cut and not refused, because the step records work that is done.
func lengthen(r *mailroom.Run, by time.Duration, now time.Time) {
	if by <= 0 || r.Stop != "" || r.ClaimEnds.IsZero() {
		return
	}
	later := now.Add(by.Truncate(time.Microsecond) + r.StopGrace).Sub(r.ClaimEnds)
	if later = min(later, r.ClaimSpare); later > 0 {
		r.ClaimEnds, r.ClaimSpare = r.ClaimEnds.Add(later), r.ClaimSpare-later
	}
}

// TimeLeft returns how long the worker of a claimed run may go on at now, before the grace of its claim begins: at
// least 1 ms, but 0 if its claim has no end.
func TimeLeft(r *mailroom.Run, now time.Time) time.Duration {
	if r.ClaimEnds.IsZero() {
		return 0
	}
	return max(time.Millisecond, r.ClaimEnds.Add(-r.StopGrace).Sub(now))
}

// Holds reports whether the worker holds the claim.
func (t *State) Holds(worker string, c mailroom.Claim) bool {
	_, err := t.claimedRun(c)
	return err == nil && t.Worker == worker
}
