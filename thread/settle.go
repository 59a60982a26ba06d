package thread

import (
	"time"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/internal/digest"
)

// Outcome is how an attempt ended.
type Outcome string

const (
	OutcomeComplete Outcome = "complete" // the agent is done
	OutcomeFail     Outcome = "fail"     // the attempt ended with an error; its class decides about a retry
	OutcomeRelease  Outcome = "release"  // returned to the queue, without counting the attempt, see afterRelease
	OutcomePark     Outcome = "wait"     // the run waits for tickets
)

// Settle ends an attempt.
type Settle struct {
	mailroom.Claim
	Number  int // the run's Step + 1
	Outcome Outcome
	Message *PartialText      // being written, complete with OutcomeComplete, else partial; nil: its flushed text
	Failure *mailroom.Failure // with OutcomeFail
	Wait    *mailroom.Wait    // with OutcomePark
	Asks    []mailroom.Ask    // with OutcomePark: tickets to open
	Jitter  float64           // 0 to 1; adds up to a fifth to the delay of a retry
	Forced  bool              // the agent did not stop in time
	Entered bool              // with OutcomeRelease: the agent has begun to work
	GiveWay string            // with OutcomeRelease: the queued run to start before it, see [GiveWay]

	sum string // digest, set by Check
	// legacySum is the digest of older versions, which did not cover Asks. It is accepted for a
	// repeat and no longer written.
	legacySum string
	asks      []ask // the Asks, with digests, set by Check
}

// Size returns the approximate size of the settle in bytes.
func (s *Settle) Size() int {
	n := asksSize(s.Asks)
	if s.Message != nil {
		n += len(s.Message.Text)
	}
	if s.Wait != nil {
		n += itemSize * len(s.Wait.Names)
	}
	return n
}

// Check validates s.
func (s *Settle) Check() error {
	switch s.Outcome {
	case OutcomeComplete, OutcomeRelease, OutcomePark:
		if s.Failure != nil {
			return check.Invalid("failure", "is allowed only with the outcome fail", s.Failure.Error())
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
	s.asks = digestAsks(s.Asks)
	return nil
}

// settleDigest has the fields of a Settle that its digest covers.
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
	sum := s.sum
	if r := t.Run(s.Run); r != nil && r.LastStep.Digest == s.legacySum {
		sum = s.legacySum
	}
	r, repeat, err := t.checkAttempt(s.Claim, s.Number, sum)
	if repeat || err != nil {
		return r, err
	}
	if s.Outcome == OutcomePark {
		if err := s.checkPark(&t.Tickets); err != nil {
			return nil, err
		}
	}
	class := mailroom.Class("")
	if s.Failure != nil {
		class = s.Failure.Class
	}
	t.Attempts.end(r, s.Outcome, class)
	t.promote(now)
	t.appendMessage(r, s.Message, mailroom.VisibleAll, s.Outcome != OutcomeComplete && s.Outcome != OutcomePark, now)
	switch {
	case s.Outcome == OutcomeComplete:
		r.Progress = 1
		t.finish(r, completed(r), now)
	case r.Stop != "" && r.Stop != mailroom.ReasonBudget:
		t.finish(r, stopped(r, s.Forced), now)
	case s.Outcome == OutcomePark:
		r.Stop = "" // the run asks for a raise when its wait has ended, if it still has to
		t.park(r, s, now)
	case endedByBudget(r, now) && class != mailroom.ClassPermanent:
		askRaise(t, r, now)
	case s.Outcome == OutcomeRelease && mayPass(t, r, s.GiveWay):
		giveWay(t, r, s.GiveWay, now)
	case s.Outcome == OutcomeRelease:
		t.follow(r, afterRelease(r, s.Entered, now), now)
	default:
		r.Stop = ""
		t.follow(r, afterFailure(r, s.Failure, s.Jitter, now), now)
	}
	r.LastStep = mailroom.StepMark{Attempt: s.Attempt, Step: s.Number, Digest: s.sum, Seq: t.LastSeq}
	t.touchRun(r)
	t.schedule(now)
	return r, nil
}
