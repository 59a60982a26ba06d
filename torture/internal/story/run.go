package story

import (
	"fmt"
	"strings"
	"time"

	"mailroom"
)

// isHead: runs start in order of priority, then place. A run that was held has
// its place from the first moment at which its time had come.
func (s *Story) isHead(e mailroom.Entry, r *Run) {
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

// before reports whether a is ahead of b in the queue. A run that was held got
// its place before anything that came at that time or later.
func (s *Story) before(a, b *Run) bool {
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

func (s *Story) rescheduled(e mailroom.Entry, r *Run) {
	body := decode[mailroom.RunRescheduled](s, e)
	if r.Stopping {
		s.bad(e, "the run was asked to stop, and goes on")
	}
	r.Status = mailroom.StatusQueued
	if body.Error != nil && !strings.Contains(body.Error.Message, "the first attempt fails") {
		s.bad(e, "the agents here do not fail with %q", body.Error.Message)
	}
	if body.Reason != "lease_lost" {
		return
	}
	r.Crashes++
	r.Lost++
	if r.Crashes >= mailroom.MaxCrashes || r.Lost >= mailroom.MaxLost {
		s.bad(e, "goes on after %d lost claims in a row, %d in all", r.Crashes, r.Lost)
	}
}

func (s *Story) ended(e mailroom.Entry, r *Run) {
	if e.Kind == mailroom.KindCompleted {
		body := decode[mailroom.RunCompleted](s, e)
		if show(body.Reply) != show(r.Reply) {
			s.bad(e, "its reply is %s, the last message it wrote %s", show(body.Reply), show(r.Reply))
		}
		s.end(e, r, mailroom.StatusCompleted)
		return
	}
	body := decode[mailroom.RunFailed](s, e)
	r.Error = body.Error.Class
	if r.Error == mailroom.ClassCrashed {
		r.Crashes++
		r.Lost++
		if r.Status != mailroom.StatusRunning || body.Crashes != r.Crashes || r.Crashes < mailroom.MaxCrashes && r.Lost < mailroom.MaxLost {
			s.bad(e, "is a dead letter after %d lost claims in a row, %d in all; it says %d", r.Crashes, r.Lost, body.Crashes)
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

func (s *Story) end(e mailroom.Entry, r *Run, status mailroom.Status) {
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

// cancelled ends a run that nobody holds, or one that was asked to stop. A run
// that an unread steered message would have become is first heard of here.
func (s *Story) cancelled(e mailroom.Entry) {
	r := s.Runs[e.Run]
	if r == nil {
		r = &Run{ID: e.Run, Status: mailroom.StatusQueued, Effects: map[string]*Effect{}}
		for _, m := range s.Messages {
			if m.Steered && m.own() == e.Run && m.Fate != "retracted" {
				if m.Fate != "" {
					s.bad(e, "message %s is superseded, and was %s before", m.ID, m.Fate)
				}
				m.Fate = "superseded"
				r.Messages = append(r.Messages, m.ID)
			}
		}
		if len(r.Messages) == 0 {
			s.bad(e, "names a run that the log does not know")
		}
		s.Runs[e.Run] = r
	}
	body := decode[mailroom.RunStop](s, e)
	if r.Status == mailroom.StatusRunning && !r.Stopping {
		s.bad(e, "a worker holds the run, and nobody asked it to stop")
	}
	if r.Status == mailroom.StatusRunning && e.Attempt != r.Attempt {
		s.bad(e, "the run is in attempt %d", r.Attempt)
	}
	r.Reason = body.Reason
	s.end(e, r, mailroom.StatusCancelled)
}

// retried: by hand, at the end of the queue.
func (s *Story) retried(e mailroom.Entry, r *Run) {
	if r.Status != mailroom.StatusFailed && r.Status != mailroom.StatusCancelled {
		s.bad(e, "comes to a run that is %s", r.Status)
	}
	r.Status, r.Started, r.Place, r.PlacedAt, r.Held = mailroom.StatusQueued, false, e.Seq, e.At, time.Time{}
	r.Crashes, r.Lost, r.Reply, r.Error, r.Reason = 0, 0, nil, "", ""
	r.Retries++
	s.queue[r.ID] = r
	if decode[mailroom.RunRetried](s, e).Fresh {
		for _, f := range r.Effects {
			f.forget()
		}
		for _, k := range s.Tickets {
			if k.Run == r.ID {
				k.State = mailroom.TicketVoid
			}
		}
	}
}

// Rest returns what must not be when everything has come to rest.
func (s *Story) Rest() []string {
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
