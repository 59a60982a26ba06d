package turn

import (
	"time"

	"mailroom"
	"mailroom/entry"
)

// ran applies an entry of a run: how its turn goes on, and how it ends.
func (s *State) ran(e mailroom.Entry) {
	t := s.turn(e)
	switch e.Kind {
	case entry.KindQueued:
		var body entry.RunQueued
		_ = e.Decode(&body) // a body that cannot be read in full sets the fields that can be read
		t.Begun, t.Status, t.Agent, t.Messages, t.Until = true, StatusQueued, body.Agent, body.Messages, body.AvailableAt
		s.changed(TurnChanged, t)
		return
	case entry.KindStop:
		t.Stopping = true
		s.changed(TurnChanged, t)
		return
	case entry.KindStarted, entry.KindResumed:
		if s.live.run != t.Run || s.live.attempt < e.Attempt {
			s.dropLive() // the live text of the claim before has ended: one run of a thread at a time holds a claim
		}
		t.Status, t.Until, t.Reason, t.Error = StatusRunning, time.Time{}, "", nil
		t.counted, t.written = e.Attempt, 0
		s.changed(TurnChanged, t)
		return
	}
	s.dropLiveOf(t, e.Attempt+1) // the log has the message being written before the end of its attempt
	switch e.Kind {
	case entry.KindWaiting:
		var body entry.RunWaiting
		_ = e.Decode(&body)
		t.Status, t.Until = StatusWaiting, time.Time{}
		if body.Until != nil {
			t.Until = *body.Until
		}
		s.changed(TurnChanged, t)
	case entry.KindRescheduled:
		s.rescheduled(t, e)
	case entry.KindRetried:
		t.Status, t.Stopping, t.Until, t.Reason, t.Error = StatusQueued, false, time.Time{}, "", nil
		s.supersede(t)
		s.changed(TurnChanged, t)
	default:
		s.finish(t, e)
	}
}

// rescheduled applies the end of an attempt that another one follows. An attempt that was released or gave way did not
// fail, so its turn is only queued again.
func (s *State) rescheduled(t *Turn, e mailroom.Entry) {
	var body entry.RunRescheduled
	_ = e.Decode(&body)
	s.supersede(t)
	t.Status, t.Until = StatusQueued, body.AvailableAt
	if body.Reason != entry.RescheduledReleased && body.Reason != entry.RescheduledGaveWay {
		t.Status = StatusRetrying
		s.fail(t, e, body.Error, Failure{Reason: body.Reason, Again: true, Until: body.AvailableAt})
	}
	s.changed(TurnChanged, t)
}

// finish applies the end of a run.
func (s *State) finish(t *Turn, e mailroom.Entry) {
	status, ok := entry.EndStatus(&e)
	if !ok {
		return
	}
	switch e.Kind {
	case entry.KindCompleted:
		var body entry.RunCompleted
		if e.Decode(&body) == nil {
			t.Usage = body.Usage
		}
	case entry.KindFailed:
		var body entry.RunFailed
		_ = e.Decode(&body)
		failed := body.Error
		t.Error = &failed
		s.fail(t, e, &failed, Failure{})
	case entry.KindCancelled:
		var body entry.RunStop
		_ = e.Decode(&body)
		t.Reason = body.Reason
	}
	s.end(t, Status(status))
}

// end ends a turn. What is still open can no longer end by itself.
func (s *State) end(t *Turn, status Status) {
	for _, p := range t.Parts {
		if p.Progress == ProgressOpen {
			p.Progress = ProgressVoid
			s.push(PartEnded, t, p)
		}
	}
	t.Status, t.Stopping, t.Until, t.awaited = status, false, time.Time{}, nil
	s.changed(TurnEnded, t)
}

// fail adds the part of a failure.
func (s *State) fail(t *Turn, e mailroom.Entry, failed *mailroom.RunError, f Failure) {
	if failed != nil {
		f.Class, f.Message = failed.Class, failed.Message
	}
	s.whole(t, &Part{Key: atSeq(KindError, e.Seq), Kind: KindError, Attempt: e.Attempt, Seq: e.Seq, Failure: &f})
}

// supersede marks the last message of a turn if its attempt broke off: the next attempt writes it again.
func (s *State) supersede(t *Turn) {
	for _, p := range t.Parts {
		if p.Partial && !p.Superseded && p.Message == t.said {
			p.Superseded = true
			s.push(PartChanged, t, p)
		}
	}
}
