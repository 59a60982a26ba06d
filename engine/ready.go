package engine

import (
	"errors"
	"sync"
)

// Hold is a period in which the engine's worker has its lease.
type Hold struct {
	Worker string          // id of the worker
	Lost   <-chan struct{} // closed at the end, before another server may take over
}

// state is what [Engine.Ready] and [Engine.Hold] report.
type state struct {
	mu    sync.Mutex
	why   error // the reason for not being ready
	swept bool  // the first sweep is done
	ended bool  // why is final
	hold  Hold  // Worker "" without a lease
	lost  chan struct{}
}

func (s *state) held() Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold
}

// renewed records a lease.
func (s *state) renewed(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold.Worker == worker {
		return
	}
	s.drop()
	s.lost = make(chan struct{})
	s.hold = Hold{worker, s.lost}
}

// dropHold records that the lease has ended.
func (s *state) dropHold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

// drop ends the current hold. The caller holds mu.
func (s *state) drop() {
	if s.hold.Worker != "" {
		close(s.lost)
	}
	s.hold = Hold{}
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
