package fold

import (
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/entry"
)

// isHead checks that runs start in the order of priority, then place. A scheduled run gets its
// place when its time comes.
func (s *Thread) isHead(e mailroom.Entry, r *Run) {
	if r.Held.After(e.At) {
		s.bad(e, "starts before its time, %s", r.Held)
	}
	for _, other := range s.queue {
		if other != r && !other.Held.After(e.At) && s.before(other, r) {
			s.bad(e, "starts before run %s (priority %d, place of entry %d; its own: %d, %d)",
				other.ID, other.Priority, other.Place, r.Priority, r.Place)
		}
	}
}

// before reports whether a is ahead of b in the queue. A scheduled run has a place before all runs
// submitted at its time or later.
func (s *Thread) before(a, b *Run) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	switch {
	case a.Held.Equal(b.Held):
		return a.Place < b.Place
	case a.Held.IsZero():
		return a.PlacedAt.Before(b.Held)
	case b.Held.IsZero():
		return !b.PlacedAt.Before(a.Held)
	}
	return a.Held.Before(b.Held)
}

func (s *Thread) rescheduled(e mailroom.Entry, r *Run) {
	body := decode[entry.RunRescheduled](s, e)
	if r.Stopping {
		s.bad(e, "the run was asked to stop but continues")
	}
	r.Status = mailroom.StatusQueued
	if body.Error != nil && !strings.Contains(body.Error.Message, "the first attempt fails") {
		s.bad(e, "unexpected agent error %q", body.Error.Message)
	}
	if body.Reason != "lease_lost" {
		return
	}
	r.Crashes++
	r.Lost++
	if r.Crashes >= mailroom.MaxCrashes || r.Lost >= mailroom.MaxLost {
		s.bad(e, "continues after %d lost claims in a row, %d in total", r.Crashes, r.Lost)
	}
}

func (s *Thread) ended(e mailroom.Entry, r *Run) {
	if e.Kind == entry.KindCompleted {
		body := decode[entry.RunCompleted](s, e)
		if show(body.Reply) != show(r.Reply) {
			s.bad(e, "its reply is %s, its last message %s", show(body.Reply), show(r.Reply))
		}
		s.end(e, r, mailroom.StatusCompleted)
		return
	}
	body := decode[entry.RunFailed](s, e)
	r.Error = body.Error.Class
	if r.Error == mailroom.ClassCrashed {
		r.Crashes++
		r.Lost++
		if r.Status != mailroom.StatusRunning || body.Crashes != r.Crashes || r.Crashes < mailroom.MaxCrashes && r.Lost < mailroom.MaxLost {
			s.bad(e, "failed after %d lost claims in a row, %d in total; the entry says %d", r.Crashes, r.Lost, body.Crashes)
		}
	}
	s.end(e, r, mailroom.StatusFailed)
}

func show(text *string) string {
	if text == nil {
		return "none"
	}
	return fmt.Sprintf("%.60q", *text)
}

func (s *Thread) end(e mailroom.Entry, r *Run, status mailroom.Status) {
	if r.Status.Finished() {
		s.bad(e, "ends a run that is %s", r.Status)
	}
	if s.Current == r.ID {
		s.Current = ""
	}
	r.Status, r.Stopping = status, false
	delete(s.queue, r.ID)
	r.Ends++
	for _, k := range s.Tickets {
		if k.Run == r.ID && !k.Decided && !k.Expired {
			k.State = mailroom.TicketVoid
		}
	}
}

// cancelled ends a run that no worker holds, or one with a stop request. If an unread steered
// message is superseded, the run that it would have become appears here for the first time.
func (s *Thread) cancelled(e mailroom.Entry) {
	r := s.Runs[e.Run]
	if r == nil {
		r = &Run{ID: e.Run, Status: mailroom.StatusQueued, Effects: map[string]*Effect{}}
		for _, m := range s.Messages {
			if m.Steered && m.own() == e.Run && m.Fate != "retracted" {
				if m.Fate != "" {
					s.bad(e, "message %s is superseded but was %s before", m.ID, m.Fate)
				}
				m.Fate = "superseded"
				r.Messages = append(r.Messages, m.ID)
			}
		}
		if len(r.Messages) == 0 {
			s.bad(e, "names an unknown run")
		}
		s.Runs[e.Run] = r
	}
	body := decode[entry.RunStop](s, e)
	if r.Status == mailroom.StatusRunning && !r.Stopping {
		s.bad(e, "a worker holds the run, and there is no stop request")
	}
	if r.Status == mailroom.StatusRunning && e.Attempt != r.Attempt {
		s.bad(e, "the run is in attempt %d", r.Attempt)
	}
	r.Reason = body.Reason
	s.end(e, r, mailroom.StatusCancelled)
}

// retried puts a failed or cancelled run at the end of the queue.
func (s *Thread) retried(e mailroom.Entry, r *Run) {
	if r.Status != mailroom.StatusFailed && r.Status != mailroom.StatusCancelled {
		s.bad(e, "comes to a run that is %s", r.Status)
	}
	r.Status, r.Started, r.Place, r.PlacedAt, r.Held = mailroom.StatusQueued, false, e.Seq, e.At, time.Time{}
	r.Crashes, r.Lost, r.Reply, r.Error, r.Reason = 0, 0, nil, "", ""
	r.Retries++
	s.queue[r.ID] = r
	if decode[entry.RunRetried](s, e).Fresh {
		for _, f := range r.Effects {
			f.reset()
		}
		for _, k := range s.Tickets {
			if k.Run == r.ID {
				k.State = mailroom.TicketVoid
			}
		}
	}
}

// Unfinished returns what must not be open after all runs have ended.
func (s *Thread) Unfinished() []string {
	var found []string
	for _, r := range s.Runs {
		if !r.Status.Finished() {
			found = append(found, fmt.Sprintf("thread %s: run %s is %s and never ended", s.Thread, r.ID, r.Status))
		}
	}
	for _, m := range s.Messages {
		if s.Runs[m.Run] == nil {
			found = append(found, fmt.Sprintf("thread %s: message %s has no run", s.Thread, m.ID))
		}
		if m.Steered && m.Fate == "" {
			found = append(found, fmt.Sprintf("thread %s: steered message %s was neither read nor became a run", s.Thread, m.ID))
		}
	}
	return found
}
