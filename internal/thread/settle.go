package thread

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/store"
)

// Outcome is how an attempt ended.
type Outcome string

const (
	OutcomeComplete Outcome = "complete" // the agent is done
	OutcomeFail     Outcome = "fail"     // with an error; its class decides about a retry
	OutcomeRelease  Outcome = "release"  // returned to the queue, without counting the attempt
	OutcomePark     Outcome = "wait"     // it waits for tickets
)

// Settle ends an attempt.
type Settle struct {
	mailroom.Claim
	Number  int // the run's Step + 1
	Outcome Outcome
	Message *PartialText      // message being written, complete with OutcomeComplete and else partial; nil: its flushed text
	Failure *mailroom.Failure // with OutcomeFail
	Wait    *mailroom.Wait    // with OutcomePark
	Asks    []mailroom.Ask    // with OutcomePark: tickets to open
	Jitter  float64           // 0 to 1; adds up to a fifth to the delay of a retry
	Forced  bool              // the agent did not stop in time

	sum string // digest, set by Check
	// legacySum is the digest of older versions, which did not cover Asks. It is accepted for a
	// repeat and no longer written.
	legacySum string
}

// Check validates s.
func (s *Settle) Check() error {
	switch s.Outcome {
	case OutcomeComplete, OutcomeRelease, OutcomePark:
		if s.Failure != nil {
			return check.Invalid("failure", "goes with the outcome fail", s.Failure.Error())
		}
	case OutcomeFail:
		if s.Failure == nil {
			return check.Invalid("failure", "is needed with the outcome fail", nil)
		}
	default:
		return check.Invalid("outcome", "must be complete, fail, release or wait", string(s.Outcome))
	}
	if !(s.Jitter >= 0 && s.Jitter <= 1) { // NaN included
		return check.Invalid("jitter", "must be between 0 and 1", s.Jitter)
	}
	if err := checkAsks(s.Asks); err != nil {
		return err
	}
	if err := s.Message.check(); err != nil {
		return err
	}
	if s.legacySum = s.digest(nil); len(s.Asks) == 0 {
		s.sum = s.legacySum
	} else {
		s.sum = s.digest(s.Asks)
	}
	return nil
}

// settleDigest holds the fields that the digest of a settle covers.
type settleDigest struct {
	Outcome Outcome
	Message *PartialText
	Failure string
	Wait    *mailroom.Wait
	Asks    []mailroom.Ask `json:",omitempty"`
}

func (s *Settle) digest(asks []mailroom.Ask) string {
	why := ""
	if s.Failure != nil {
		why = s.Failure.Error()
	}
	return digest.Short(settleDigest{s.Outcome, s.Message, why, s.Wait, asks})
}

// Settle ends an attempt and returns the run. A repeat of the same settle changes nothing. A run
// that was asked to stop ends cancelled, unless it completed.
func (t *State) Settle(s *Settle, now time.Time) (*mailroom.Run, error) {
	if s.sum == "" {
		if err := s.Check(); err != nil {
			return nil, err
		}
	}
	if r := t.Run(s.Run); r != nil {
		sum := s.sum
		if r.LastStep.Digest == s.legacySum {
			sum = s.legacySum
		}
		repeat, err := checkNumber(r, s.Claim, s.Number, sum)
		if repeat {
			return r, nil
		}
		if _, lost := t.claimedRun(s.Claim); lost != nil {
			return nil, lost
		}
		if err != nil {
			return nil, err
		}
	}
	r, err := t.claimedRun(s.Claim)
	if err != nil {
		return nil, err
	}
	if s.Outcome == OutcomePark {
		if err := s.checkPark(&t.Tickets); err != nil {
			return nil, err
		}
	}
	t.promote(now)
	t.settle(r, s, now)
	r.LastStep = mailroom.StepMark{Attempt: s.Attempt, Step: s.Number, Digest: s.sum, Seq: t.LastSeq}
	t.touchRun(r)
	t.schedule(now)
	return r, nil
}

func (t *State) settle(r *mailroom.Run, s *Settle, now time.Time) {
	t.appendMessage(r, s.Message, mailroom.VisibleAll, s.Outcome != OutcomeComplete && s.Outcome != OutcomePark, now)
	switch {
	case s.Outcome == OutcomeComplete:
		r.Progress = 1
		t.finish(r, mailroom.StatusCompleted, now, entry.KindCompleted, entry.RunCompleted{Reply: r.Reply, Steps: r.Step, Usage: r.Usage})
	case r.Stop != "":
		t.endStopped(r, s.Forced, now)
	case s.Outcome == OutcomePark:
		t.park(r, s, now)
	case s.Outcome == OutcomeRelease:
		t.reschedule(r, "released", now, nil, now)
	default:
		t.fail(r, s.Failure, s.Jitter, now)
	}
}

// fail decides whether an error is retried or ends the run.
func (t *State) fail(r *mailroom.Run, f *mailroom.Failure, jitter float64, now time.Time) {
	e := mailroom.RunError{Class: f.Class, Message: truncate(validText(fmt.Sprint(f.Err)), maxErrorLen)}
	switch {
	case f.Class == mailroom.ClassPermanent:
		t.deadLetter(r, e, now)
	case r.NoRetry:
		e.Class = mailroom.ClassExhausted
		t.deadLetter(r, e, now)
	case f.Class == mailroom.ClassUnavailable:
		t.retryOutage(r, e, f.RetryAfter, jitter, now)
	default:
		e.Class = mailroom.ClassTransient
		r.Failures++
		r.Outages, r.OutageSince = 0, time.Time{}
		if r.Failures >= r.MaxAttempts {
			e.Class = mailroom.ClassExhausted
			t.deadLetter(r, e, now)
			return
		}
		at := now.Add(retryDelay(r.Failures, retryCap, f.RetryAfter, jitter))
		t.reschedule(r, "retry", at, &e, now)
	}
}

// retryOutage schedules a retry without counting a failure, until giveUpAfter has passed since the
// first attempt of the outage. Time that the run spent due in the queue does not count: a server
// that was off has not tried.
func (t *State) retryOutage(r *mailroom.Run, e mailroom.RunError, after time.Duration, jitter float64, now time.Time) {
	r.Outages++
	if r.OutageSince.IsZero() {
		r.OutageSince = now
	}
	if now.Sub(r.OutageSince) >= giveUpAfter {
		e.Class = mailroom.ClassExhausted
		t.deadLetter(r, e, now)
		return
	}
	at := now.Add(retryDelay(r.Outages, outageCap, after, jitter))
	t.reschedule(r, "retry", at, &e, now)
}

// retryDelay returns the delay before retry n = 1, 2, 3, …: it doubles from retryBase up to limit,
// plus up to a fifth, and is never less than after.
func retryDelay(n int, limit, after time.Duration, jitter float64) time.Duration {
	d := limit
	if shift := n - 1; shift < 20 {
		d = min(retryBase<<shift, limit)
	}
	d += time.Duration(float64(d) * 0.2 * jitter)
	return (max(d, after) + time.Microsecond - 1).Truncate(time.Microsecond)
}

// reschedule releases the claim. The run stays the thread's current run.
func (t *State) reschedule(r *mailroom.Run, reason string, at time.Time, e *mailroom.RunError, now time.Time) {
	r.Status, r.AvailableAt = mailroom.StatusQueued, at
	t.release(r)
	t.touchRun(r)
	t.append(entry.KindRescheduled, r, now, entry.RunRescheduled{Reason: reason, Attempt: r.Attempt, AvailableAt: at, Error: e})
}

// deadLetter fails the run for good.
func (t *State) deadLetter(r *mailroom.Run, e mailroom.RunError, now time.Time) {
	r.Error = &e
	t.finish(r, mailroom.StatusFailed, now, entry.KindFailed, entry.RunFailed{Error: e, Failures: r.Failures, Crashes: r.Crashes})
}

// endStopped cancels a run that was asked to stop.
func (t *State) endStopped(r *mailroom.Run, forced bool, now time.Time) {
	r.Reason = r.Stop
	t.finish(r, mailroom.StatusCancelled, now, entry.KindCancelled, entry.RunStop{Reason: r.Stop, By: r.StopBy, Forced: forced})
}

// finish ends a run. Its unread steered messages become runs in the queue, at the place of their
// submission.
func (t *State) finish(r *mailroom.Run, status mailroom.Status, now time.Time, kind string, body any) {
	r.Status, r.FinishedAt = status, now
	if t.Current == r.ID {
		t.Current = ""
		t.release(r)
	}
	seq := t.append(kind, r, now, body)
	t.Tickets.void(r.ID)
	t.Outbox.reportEnd(&t.Thread, r, seq)
	r.Wait, r.Resumes = nil, false
	for _, own := range detachSteers(r, func(*mailroom.Run) bool { return true }) {
		t.touchRun(own)
		t.append(entry.KindQueued, own, now, queuedBody(own))
	}
	r.Steers = slices.DeleteFunc(slices.Clone(r.Steers), func(s mailroom.Steer) bool {
		return s.Read && status == mailroom.StatusCompleted // a manual retry reads the others again
	})
	trimSpent(r)
	t.touchRun(r)
}

// Expire takes the claim away from a dead worker. said is the flushed text of the message that the
// run was writing.
func (t *State) Expire(worker *store.Worker, said *PartialText, now time.Time) {
	r := t.current()
	if r == nil || r.Status != mailroom.StatusRunning || t.Worker != worker.ID {
		return
	}
	t.promote(now)
	t.appendMessage(r, said, mailroom.VisibleAll, true, now)
	if r.Stop != "" {
		t.endStopped(r, false, now) // the lost claim no longer matters
	} else {
		t.loseClaim(r, !worker.Uncharged, now)
	}
	t.schedule(now)
}

// EndOverdue ends a claim that has outlived ClaimEnds and reports whether it did. said is as in
// Expire.
func (t *State) EndOverdue(said *PartialText, now time.Time) bool {
	r := t.current()
	if r == nil || r.Status != mailroom.StatusRunning || r.ClaimEnds.IsZero() || r.ClaimEnds.After(now) {
		return false
	}
	t.promote(now)
	t.appendMessage(r, said, mailroom.VisibleAll, true, now)
	if r.Stop != "" {
		t.endStopped(r, true, now)
	} else {
		t.fail(r, &mailroom.Failure{Class: mailroom.ClassTransient, Err: errOverrun}, 0, now)
	}
	t.schedule(now)
	return true
}

// Extend moves the end of an overdue claim to until. It is for the claims of the caller's own
// worker, which ends its runs itself by a clock that stands still while the machine sleeps.
func (t *State) Extend(until, now time.Time) {
	r := t.current()
	if r == nil || r.Status != mailroom.StatusRunning || r.ClaimEnds.IsZero() || r.ClaimEnds.After(now) {
		return
	}
	t.promote(now)
	r.ClaimEnds = until
	t.touchRun(r)
	t.schedule(now)
}

var errOverrun = errors.New("run deadline exceeded; its worker did not end the attempt")

// release removes the claim from the row, and its limits and its flushed text from the run.
func (t *State) release(r *mailroom.Run) {
	t.Worker, t.Round = "", 0
	r.ClaimEnds, r.StopGrace = time.Time{}, 0
	t.dropPartials(r)
}

// loseClaim counts a lost claim, and a crash if charged, and reschedules or fails the run.
func (t *State) loseClaim(r *mailroom.Run, charged bool, now time.Time) {
	if charged {
		r.Crashes++
	}
	r.Lost++
	if r.Crashes >= mailroom.MaxCrashes || r.Lost >= mailroom.MaxLost {
		t.deadLetter(r, mailroom.RunError{Class: mailroom.ClassCrashed, Message: fmt.Sprintf("its worker was lost %d times in a row, %d times in all", r.Crashes, r.Lost)}, now)
		return
	}
	at := now
	if r.Crashes > 1 {
		at = now.Add(time.Second)
	}
	t.reschedule(r, "lease_lost", at, nil, now)
}

// ReleaseUnheld releases a claim of round or an earlier one that the worker reports not to hold:
// the answer to its claim request was lost. It reports whether it did.
func (t *State) ReleaseUnheld(worker string, round int64, now time.Time) bool {
	r := t.current()
	if r == nil || r.Status != mailroom.StatusRunning || t.Worker != worker || t.Round > round {
		return false
	}
	t.promote(now)
	if r.Stop != "" {
		t.endStopped(r, false, now)
	} else {
		t.reschedule(r, "released", now, nil, now)
	}
	t.schedule(now)
	return true
}

// FailOrphaned fails the due run of an agent that no worker serves.
func (t *State) FailOrphaned(agent string, now time.Time) bool {
	t.promote(now)
	t.expireTickets(now)
	r := t.nextRun(now)
	if r == nil || r.Agent != agent {
		t.schedule(now)
		return false
	}
	t.deadLetter(r, mailroom.RunError{Class: mailroom.ClassPermanent, Message: fmt.Sprintf("no worker serves agent %q", agent)}, now)
	t.schedule(now)
	return true
}

// validText replaces bytes that are not text: a program's last output may contain any.
func validText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
