package room

import (
	"maps"
	"slices"
	"time"
)

const (
	// CheckInterval is the time after which open questions are checked although no commit was
	// announced: an announcement may be lost.
	CheckInterval = time.Minute
	// redrawGrace is the time from a decision to its redraw. A decision by button and a reply of the
	// agent redraw the question in their own delivery; so a question must be seen decided twice
	// before it gets a delivery for the redraw.
	redrawGrace = time.Second
	// maxRedraws bounds the redraw deliveries of a question. The first retry comes after
	// FirstRedraw, and the delay doubles.
	maxRedraws  = 5
	FirstRedraw = 10 * time.Second
)

// question is a question that is shown as open.
type question struct {
	thread string // thread of the conversation

	seen  bool      // an earlier check found the question decided
	tries int       // redraw deliveries
	next  time.Time // earliest next one
}

// Ask watches a question until it is redrawn.
func (s *State) Ask(ticket, thread string) {
	if s.questions[ticket] == nil {
		s.questions[ticket] = &question{thread: thread}
	}
}

// Questions returns the tickets of the watched questions.
func (s *State) Questions() []string { return slices.Collect(maps.Keys(s.questions)) }

// Asks reports whether a conversation has a watched question.
func (s *State) Asks(thread string) bool {
	for _, q := range s.questions {
		if q.thread == thread {
			return true
		}
	}
	return false
}

// Check applies what the store says about the watched questions: which are decided, and what the
// room's saved state still shows as open. It returns the redraws to request now, and the time until
// the next check. It stops watching questions that were redrawn or tried too often.
func (s *State) Check(decided map[string]bool, saved Saved, now time.Time) (due []Action, wait time.Duration) {
	wait = CheckInterval
	for id, q := range s.questions {
		switch {
		case !decided[id]:
		case s.gone, !saved.IsShown(id), q.tries == maxRedraws && !now.Before(q.next):
			delete(s.questions, id)
		case !q.seen:
			q.seen, q.next = true, now.Add(redrawGrace)
			wait = min(wait, redrawGrace)
		case now.Before(q.next):
			wait = min(wait, q.next.Sub(now))
		default:
			q.tries++
			q.next = now.Add(FirstRedraw << (q.tries - 1))
			wait = min(wait, q.next.Sub(now))
			due = append(due, Action{Kind: ActionRedraw, Ticket: id, Try: q.tries})
		}
	}
	return due, wait
}
