package thread

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/check"
)

// checkJoin validates Join, which only channels set. Other clients can wait before they submit. A channel cannot,
// because a crash would lose the messages that it holds in memory.
func (in *Submit) checkJoin() error {
	switch {
	case in.Join == 0:
		return nil
	case in.Join < 0 || in.Join > mailroom.MaxJoin:
		return check.Invalid("join", fmt.Sprintf("must be between 0s and %s", mailroom.MaxJoin), in.Join.String())
	case !strings.HasPrefix(in.Origin.Via, channelPrefix):
		return check.Invalid("join", "is allowed only with messages of a channel", in.Join.String())
	case in.Mode == mailroom.ModeLatest || in.Mode == mailroom.ModeReject:
		return check.Invalid("join", "is allowed only with the modes queue, steer, interrupt and collect", string(in.Mode))
	case !in.NotBefore.IsZero() || !in.Deadline.IsZero() || in.Timeout > 0 || in.From != nil || len(in.Decisions) > 0:
		return check.Invalid("join", "is not allowed with a start, a deadline, a sending run or decisions", in.Join.String())
	}
	return nil
}

// joinable returns the waiting run that the messages of the submit join, or nil. They must come from the same
// sender in the same channel, and need a run with the same settings. If a later place of the queue was taken, a
// message was queued, steered or retried in between, and joining would change the order of messages.
func (s *submission) joinable() *mailroom.Run {
	in, t := s.in, s.t
	r := t.Runs.queue.joining()
	if in.Join == 0 || r == nil || !r.NotBefore.After(s.now) || r.Place != t.NextPlace-1 ||
		!s.fits(r) || isWrittenLater(r, in.Written) {
		return nil
	}
	same := r.Origin.Via == in.Origin.Via && r.Origin.Sender == in.Origin.Sender &&
		r.Agent == s.found.Agent && r.AgentVersion == s.found.AgentVersion && r.Priority == in.priority() &&
		r.Parent == in.Parent && r.NoRetry == in.NoRetry && bytes.Equal(r.Options, in.Options)
	if !same {
		return nil
	}
	return r
}

// join adds the messages to r, which waits for more of them. The labels come from the newest
// message, which a reply refers to.
func (s *submission) join(r *mailroom.Run) {
	s.appendMessages(r, r.ID)
	r.InputText, r.Metadata = "", s.in.Metadata
	setJoinUntil(r, s.in)
	at := notAfterMaxJoin(r, s.now.Add(s.in.Join)) // earlier than before if the run was held for this message
	r.NotBefore, r.AvailableAt = at, at
	s.t.touchRun(r)
}

// joinSlack is by how much the times of a platform may be wrong: some have whole seconds only.
const joinSlack = time.Second

// setJoinUntil records until when messages may be written that join r. A submit without a time of writing changes
// nothing.
func setJoinUntil(r *mailroom.Run, in *Submit) {
	if !in.Written.IsZero() {
		r.JoinUntil = in.Written.Add(in.Join + joinSlack)
	}
}

// isWrittenLater reports whether a message was written too late to join r, although it is received within the wait
// of r: after an outage, a channel receives many messages at once. A sender can give only their own messages a
// wrong time. Such a time separates messages, or joins messages that are received within the wait.
func isWrittenLater(r *mailroom.Run, at time.Time) bool {
	return !r.JoinUntil.IsZero() && at.After(r.JoinUntil) // never for the zero time
}

// notAfterMaxJoin returns at, but no later than r may wait for more messages at most.
func notAfterMaxJoin(r *mailroom.Run, at time.Time) time.Time {
	since := r.CreatedAt
	if r.JoinSince.After(since) {
		since = r.JoinSince
	}
	if limit := since.Add(mailroom.MaxJoin); at.After(limit) {
		return limit
	}
	return at
}

// HoldJoin keeps the run that waits for more messages of a sender waiting while one of them is on its way: its
// files are being downloaded. It reports whether there is such a run. The wait ends with that message, or after
// mailroom.MaxJoin, so a download that hangs delays the other messages no longer than that.
func HoldJoin(t *State, in *Submit, now time.Time) bool {
	if t.Runs.queue.joining() == nil {
		return false
	}
	t.promote(now)
	r := t.Runs.queue.joining()
	held := r != nil && r.Origin.Via == in.Origin.Via && r.Origin.Sender == in.Origin.Sender &&
		!isWrittenLater(r, in.Written)
	if held {
		postpone(r, now.Add(mailroom.MaxJoin))
		t.touchRun(r)
	}
	t.schedule(now)
	return held
}

// resumedJoin is how long a run waits for more messages after a start of the server. A channel usually needs that
// long to connect and to read the messages that have come.
const resumedJoin = 3 * time.Second

// resumeJoin makes a due run wait again if this server did not run while the run waited for more messages, because
// no channel received them. It reports whether the run waits. Waiting until the channel is connected was rejected:
// a platform that is down would hold back messages that have arrived.
func resumeJoin(t *State, r *mailroom.Run, now time.Time) bool {
	at := t.ServedSince.Add(resumedJoin)
	if !r.Joins || !r.NotBefore.Before(t.ServedSince) || !at.After(now) {
		return false
	}
	if now.Before(t.ServedSince) { // the clock has stepped back since the start: the wait could take hours
		return false
	}
	r.JoinSince, r.NotBefore, r.AvailableAt = t.ServedSince, at, at
	t.touchRun(r)
	return true
}

// endJoin moves the run that waits for more messages to the queue, at the place that it already has. A submit that
// takes a new place calls it first: no later message can join the run, and the new message may not overtake those
// of the run.
func endJoin(t *State, now time.Time) {
	r := t.Runs.queue.joining()
	if r == nil {
		return
	}
	r.Scheduled, r.Joins, r.NotBefore, r.AvailableAt = false, false, now, now
	t.touchRun(r)
}

// endFutureJoin ends the wait of a run that would wait longer than mailroom.MaxJoin: the clock has stepped back.
func endFutureJoin(t *State, now time.Time) {
	r := t.Runs.queue.joining()
	if r == nil || !r.NotBefore.After(now.Add(mailroom.MaxJoin+ClockSlack)) {
		return
	}
	held := t.HeldAt
	r.NotBefore, r.AvailableAt = now, now
	t.touchRun(r)
	t.HeldAt = t.Runs.queue.heldAt()
	if t.Current == "" && t.Due.At.Equal(held) {
		t.Due = withNode(&t.Thread, dueOf(r, now))
	}
}
