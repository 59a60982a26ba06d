package engine

import (
	"errors"
	"sync"
)

// state is what [Engine.Ready] reports.
type state struct {
	mu    sync.Mutex
	why   error // the reason for not being ready
	swept bool  // the first sweep is done
	ended bool  // why is final
}

func (s *state) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil && !s.swept {
		return errors.New("starting")
	}
	return s.why
}

func (s *state) set(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.why = why
	}
}

func (s *state) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why, s.ended = why, true
}

func (s *state) hasSwept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept = true
}
