package thread

import (
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/retry"
)

// followUp is the decision about a run after an attempt that did not end it otherwise: another attempt, or a dead
// letter.
type followUp struct {
	dead   bool               // the run fails with err
	reason string             // for another attempt, as in the log: RescheduledRetry and so on
	at     time.Time          // earliest time of another attempt
	err    *mailroom.RunError // error of the ended attempt, or nil
}

func deadLetter(class mailroom.Class, message string) followUp {
	return followUp{dead: true, err: &mailroom.RunError{Class: class, Message: message}}
}

// follow applies what follows an attempt. A run with another attempt stays the current run.
func (t *State) follow(r *mailroom.Run, f followUp, now time.Time) {
	if f.dead {
		t.finish(r, failed(r, f.err), now)
		return
	}
	r.Status, r.AvailableAt, r.LastError = mailroom.StatusQueued, f.at, f.err
	t.release(r)
	t.touchRun(r)
	t.append(entry.KindRescheduled, r, now,
		entry.RunRescheduled{Reason: f.reason, Attempt: r.Attempt, AvailableAt: f.at, Error: f.err})
}

// afterRelease returns the run to the queue. The attempt does not count. entered says that the agent may have begun
// to work: a run with MaxCrashes 0 then ends, because another attempt would be a second start.
func afterRelease(r *mailroom.Run, entered bool, now time.Time) followUp {
	if entered && r.MaxCrashes() == 0 {
		r.Lost++ // as the end of class crashed says
		return deadLetter(mailroom.ClassCrashed, "its worker gave it back, perhaps after its start, and max_crashes is 0")
	}
	return followUp{reason: entry.RescheduledReleased, at: now}
}

// afterFailure counts a failure of the agent in r and decides whether the run is retried. The class
// of the error decides first: a permanent one ends the run, and an outage costs no failure.
func afterFailure(r *mailroom.Run, f *mailroom.Failure, jitter float64, now time.Time) followUp {
	message := truncate(validText(fmt.Sprint(f.Err)), maxErrorLen)
	switch {
	case f.Agent && !r.NoRetry && r.Stop == "":
		// The message is not at fault: it waits for the end of the agent's pause, for any length of time. The probes of
		// the pause set the pace: a policy with long delays would leave it without a run to probe with.
		return followUp{
			reason: entry.RescheduledRetry,
			at:     now.Add(notBefore(f.RetryAfter, retry.Delivery().Delay(1, jitter), jitter)),
			err:    &mailroom.RunError{Class: mailroom.ClassUnavailable, Message: message},
		}
	case f.Class == mailroom.ClassPermanent:
		return deadLetter(f.Class, message)
	case r.NoRetry:
		if again := againAt(f.RetryAfter, now); again != "" {
			message = truncate(message, maxErrorLen-len(again)) + again
		}
		return deadLetter(mailroom.ClassExhausted, message)
	case f.Class == mailroom.ClassUnavailable:
		return afterOutage(r, message, f.RetryAfter, jitter, now)
	}
	r.Failures++
	r.Outages, r.OutageSince = 0, time.Time{}
	if r.Failures >= r.MaxAttempts {
		return deadLetter(mailroom.ClassExhausted, message)
	}
	return followUp{
		reason: entry.RescheduledRetry,
		at:     now.Add(notBefore(f.RetryAfter, retryOf(r).Delay(r.Failures, jitter), jitter)),
		err:    &mailroom.RunError{Class: mailroom.ClassTransient, Message: message},
	}
}

// afterOutage retries without counting a failure, until the policy's time of an outage has passed since its first
// attempt. Time that the run spent due in the queue does not count: a server that was
// off has not tried.
func afterOutage(r *mailroom.Run, message string, after time.Duration, jitter float64, now time.Time) followUp {
	r.Outages++
	if r.OutageSince.IsZero() {
		r.OutageSince = now
	}
	p := retryOf(r)
	if now.Sub(r.OutageSince) >= p.Outage {
		return deadLetter(mailroom.ClassExhausted, message)
	}
	at := now.Add(notBefore(after, p.InOutage().Delay(r.Outages, jitter), jitter))
	if after > longNamed && at.Sub(r.OutageSince) >= p.Outage && now.Sub(r.StartedAt) < maxNamed {
		r.OutageSince = at // a limit that the provider ends later than a run gives up is no outage until then
	}
	return followUp{reason: entry.RescheduledRetry, at: at,
		err: &mailroom.RunError{Class: mailroom.ClassUnavailable, Message: message}}
}

// afterLostClaim counts a lost claim in r and, if charged is true, a crash of the run.
func afterLostClaim(r *mailroom.Run, charged bool, now time.Time) followUp {
	if charged {
		r.Crashes++
	}
	r.Lost++
	if r.LostForGood() {
		return deadLetter(mailroom.ClassCrashed,
			fmt.Sprintf("its worker was lost %d times in a row, %d times in all", r.Crashes, r.Lost))
	}
	at := now
	if r.Crashes > 1 {
		at = now.Add(time.Second)
	}
	return followUp{reason: entry.RescheduledLost, at: at}
}

// setRetry records how failures of the attempt that begins are retried. It is called at the claim, because the
// worker may name the policy, and because the attempt may end without a settle of its worker. What the submit said
// takes precedence. A number of attempts below the failures that the run already has still allows this attempt.
func setRetry(r *mailroom.Run, p retry.Policy) {
	if r.AgentAttempts {
		r.MaxAttempts = max(p.Attempts, r.Failures+1)
	}
	if own, err := retry.Parse(r.SubmitRetry); err == nil { // checked at the submit
		p = own.Over(p)
	}
	d := retry.Default()
	// The defaults take no room in the row.
	r.RetryFirst, r.RetryMost, r.RetryFactor, r.RetryOutageMost, r.RetryOutage = 0, 0, 0, 0, 0
	if p.First != d.First || p.Most != d.Most {
		r.RetryFirst, r.RetryMost = p.First, p.Most
	}
	if p.Factor != d.Factor {
		r.RetryFactor = p.Factor
	}
	if p.OutageMost != d.OutageMost {
		r.RetryOutageMost = p.OutageMost
	}
	if p.Outage != d.Outage {
		r.RetryOutage = p.Outage
	}
}

// retryOf returns the retry policy that setRetry recorded for the last attempt of r.
func retryOf(r *mailroom.Run) retry.Policy {
	return retry.Of(r).Over(retry.Default())
}

// notBefore returns the delay of a retry in whole microseconds, as stores keep it. It is the longer one of delay
// and named, the delay that a provider or the agent named, at most retry.MaxNamed. A longer named delay is not
// refused, because the worker's result would be lost.
func notBefore(named, delay time.Duration, jitter float64) time.Duration {
	return (max(delay, retry.Named(named, jitter)) + time.Microsecond - 1).Truncate(time.Microsecond)
}

// AgainAt begins the end of the message of a RunError that has the time at which the agent works again, as
// " (works again at 2026-11-28T15:04:05Z)".
const AgainAt = " (works again at "

// againAt returns the end of an error message that says when the agent works again, or "" if the agent named no
// delay. The run has no further attempt whose time would say it, so a reader of the failure knows when to send the
// message again.
func againAt(after time.Duration, now time.Time) string {
	if after <= 0 {
		return ""
	}
	at := now.Add(min(after, retry.MaxNamed) + time.Minute - 1).UTC().Truncate(time.Minute) // not a moment too early
	return AgainAt + at.Format(time.RFC3339) + ")"
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

// Retry is a manual retry of a failed or cancelled run.
type Retry struct {
	Run          string
	By           string
	Fresh        bool   // drop the checkpoint, the effects and the decisions
	SameVersion  bool   // keep the agent version of the run
	AgentVersion string // current version of the agent
}

// Retry puts a finished run at the end of the queue. The attempt number keeps counting up, so a
// write of an old attempt never matches a new claim.
func (t *State) Retry(in Retry, now time.Time) (*mailroom.Run, error) {
	r := t.Run(in.Run)
	if r == nil {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no run %s in thread %q", in.Run, t.ID)
	}
	if r.Status != mailroom.StatusFailed && r.Status != mailroom.StatusCancelled {
		return nil, mailroom.Errorf(mailroom.CodeConflict,
			"run %s is %s; only a failed or cancelled run can be retried", r.ID, r.Status)
	}
	if countInputs(r) == 0 {
		return nil, mailroom.Errorf(mailroom.CodeConflict, "all messages of run %s were retracted", r.ID)
	}
	t.promote(now)
	r.Status, r.Place = mailroom.StatusQueued, takePlace(&t.Thread)
	r.Failures, r.Crashes, r.Lost, r.Outages, r.OutageSince = 0, 0, 0, 0, time.Time{}
	r.Stop, r.StopBy, r.Reason, r.Error, r.ErrorGroup, r.Reply = "", "", "", nil, "", nil
	r.StartedAt, r.FinishedAt, r.StartDelay = time.Time{}, time.Time{}, 0
	r.Scheduled, r.Joins, r.NotBefore, r.AvailableAt = false, false, time.Time{}, now
	r.RemoveDeadline()
	r.Wait, r.Resumes = nil, false
	if in.Fresh {
		r.Checkpoint, r.Progress = nil, 0
		for _, k := range t.Tickets.of(r.ID) {
			k.State = mailroom.TicketVoid
			t.Tickets.touch(k)
		}
	}
	if !in.SameVersion {
		r.AgentVersion = in.AgentVersion
	}
	t.touchRun(r)
	t.append(entry.KindRetried, r, now, entry.RunRetried{By: in.By, Fresh: in.Fresh})
	t.schedule(now)
	return r, nil
}
