package bell

import (
	"errors"
	"time"

	"mailroom/internal/retry"
)

// State is what a [Ringer] knows about an inbox and its rings. The zero State is an empty inbox.
type State struct {
	Head   string    // run of the message at the head; "": the inbox is empty
	Rings  int       // rings since the last pop, or since mail came
	Failed int       // failed tries since the last ring
	Rung   time.Time // the last ring, zero before the first
	Read   time.Time // when a pop was last seen, zero before the first
	Due    time.Time // the next ring; zero: none
	Gone   bool      // no ring reaches the session any more
	Held   string    // why the session takes no message now; "": it takes them. No ring is due until then
}

// due returns the time of the next ring; zero: none.
func (s State) due() time.Time {
	if s.Held != "" {
		return time.Time{}
	}
	return s.Due
}

// Changed returns the state after the message at the head became head.
func (s State) Changed(head string, now time.Time) State {
	before := s.Head
	switch s.Head = head; {
	case head == before || s.Gone:
		return s
	case before == "": // mail has come
		s.Rings, s.Due = 0, now
		if s.Failed > 0 {
			s.Due = now.Add(failing().Delay(s.Failed, 0))
		}
	case head == "": // all was removed
		s.Rings, s.Read, s.Due = 0, now, time.Time{}
	default: // one was removed, and the next one waits
		s.Rings, s.Read, s.Due = 0, now, now.Add(grace)
	}
	return s
}

// Tried returns the state after a ring that ended with err. jitter is 0 to 1.
func (s State) Tried(err error, pauses retry.Policy, now time.Time, jitter float64) State {
	switch {
	case errors.Is(err, ErrGone):
		s.Gone, s.Due = true, time.Time{}
	case err != nil:
		s.Failed++
		s.Due = now.Add(failing().Delay(s.Failed, jitter))
	default:
		s.Failed = 0
		s.Rings++
		s.Rung, s.Due = now, now.Add(pauses.Delay(s.Rings, jitter))
	}
	if s.Head == "" {
		s.Due = time.Time{}
	}
	return s
}
