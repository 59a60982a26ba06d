package platformtest

import (
	"context"
	"sync"
	"testing"
	"time"
)

// State is the lock of a fake's state and wakes goroutines that wait for a change of it. Its
// methods are safe for concurrent use.
type State struct {
	mu       *sync.Mutex
	describe func() string
	changed  chan struct{} // closed and replaced on every change; owned by mu
}

// NewState returns a state that mu guards. describe returns it for failure messages.
func NewState(mu *sync.Mutex, describe func() string) *State {
	return &State{mu: mu, describe: describe, changed: make(chan struct{})}
}

// Update changes the state: it calls f while the lock is held and wakes the waiting goroutines.
func (s *State) Update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.Notify()
}

// Notify wakes the waiting goroutines while a call is carried out. The lock must be held.
func (s *State) Notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Wait releases the lock, which must be held, until the next change, a value of late or the end
// of ctx. It reports whether there was a change.
func (s *State) Wait(ctx context.Context, late <-chan time.Time) bool {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// WaitFor waits until good returns true, which it checks after each change.
func (s *State) WaitFor(t testing.TB, what string, good func() bool) {
	t.Helper()
	late := time.After(waitTimeout)
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if good() {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("timeout waiting for %s; the platform has:\n%s", what, s.describe())
		}
	}
}

// waitTimeout ends a test that hangs. It is longer than anything takes on a busy machine.
const waitTimeout = 5 * time.Minute

// WaitFor waits until good returns true. It is for conditions outside of a [State]: it checks
// them at intervals of at most 20 ms.
func WaitFor(t testing.TB, what string, good func() bool) {
	t.Helper()
	late := time.After(waitTimeout)
	for pause := time.Millisecond; !good(); pause = min(2*pause, 20*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-late:
			t.Fatalf("timeout waiting for %s", what)
		}
	}
}
