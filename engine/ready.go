package engine

import (
	"context"
	"errors"
	"sync"
)

// state is what [Engine.Ready] and [Engine.AwaitLease] report.
type state struct {
	mu    sync.Mutex
	why   error // the reason for not being ready
	swept bool  // a sweep has succeeded
	ended bool  // why is final

	worker string             // id of the worker that has a lease; "": no lease
	lease  context.Context    // context of the worker's lease
	expire context.CancelFunc // ends lease
	begun  chan struct{}      // closed when the next lease begins; nil: no one waits
}

// awaitLease does the work of [Engine.AwaitLease].
func (s *state) awaitLease(ctx context.Context) (worker string, lease context.Context, err error) {
	for {
		s.mu.Lock()
		worker, lease = s.worker, s.lease
		if worker == "" && s.begun == nil {
			s.begun = make(chan struct{})
		}
		begun := s.begun
		s.mu.Unlock()
		if worker != "" {
			return worker, lease, nil
		}
		select {
		case <-begun:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
}

// setLease records that a worker has a lease.
func (s *state) setLease(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worker == worker {
		return
	}
	s.endLease()
	s.worker = worker
	s.lease, s.expire = context.WithCancel(context.Background())
	if s.begun != nil {
		close(s.begun)
		s.begun = nil
	}
}

// dropLease records that the lease has ended.
func (s *state) dropLease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLease()
}

// endLease ends the lease, if there is one. The caller holds mu.
func (s *state) endLease() {
	if s.worker != "" {
		s.worker = ""
		s.expire()
	}
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
