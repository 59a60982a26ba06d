package thread

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/check"
)

// checkJoin validates Join. Only channels set it: other clients can wait by themselves, and a chat cannot, because
// what it keeps in memory is lost in a crash.
func (in *Submit) checkJoin() error {
	switch {
	case in.Join == 0:
		return nil
	case in.Join < 0 || in.Join > mailroom.MaxJoin:
		return check.Invalid("join", fmt.Sprintf("must be between 0s and %s", mailroom.MaxJoin), in.Join.String())
	case !strings.HasPrefix(in.Origin.Via, channelPrefix):
		return check.Invalid("join", "goes with messages of a channel", in.Join.String())
	case in.Mode == mailroom.ModeLatest || in.Mode == mailroom.ModeReject:
		return check.Invalid("join", "goes with the modes queue, steer, interrupt and collect", string(in.Mode))
	case !in.NotBefore.IsZero() || !in.Deadline.IsZero() || in.Timeout > 0 || in.From != nil || len(in.Decisions) > 0:
		return check.Invalid("join", "goes without a start, a deadline, a sending run and decisions", in.Join.String())
	}
	return nil
}

// joinable returns the run that waits for more messages, if these are more of the same: the same sender in the same
// channel, for a run that would be the same one. A place that was taken since means that something was queued, steered
// or retried in between, and so the order of messages would change.
func (s *submission) joinable() *mailroom.Run {
	in, t := s.in, s.t
	r := t.Runs.queue.joining()
	if in.Join == 0 || r == nil || !r.NotBefore.After(s.now) || r.Place != t.NextPlace-1 || !s.fits(r) {
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

// join adds the messages to r, which waits for more of them. The labels are those of the newest message, which a reply
// refers to.
func (s *submission) join(r *mailroom.Run) {
	s.appendMessages(r, r.ID)
	r.InputText, r.Metadata = "", s.in.Metadata
	postpone(r, s.now.Add(s.in.Join))
	s.t.touchRun(r)
}

// endJoin moves the run that waits for more messages to the queue, at the place that it has had. A submit that takes a place
// calls it first: nothing can join the run any more, and its message may not overtake those of the run.
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
