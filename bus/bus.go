// Package bus carries hints between the parts of one process: what was just
// committed, the live text of runs, and what readers would like to have flushed.
//
// A notice may come late, twice, out of order or not at all. That must cost its
// reader time, never correctness: what counts is in the store.
package bus

import (
	"sync"
	"sync/atomic"

	"mailroom"
)

// largeNotice is the size, in bytes, from which on a notice is not kept for a reader
// that is behind: it will find the entries in the store.
const largeNotice = 64 << 10

// Notice tells that something happened in a thread. Everything in it is shared
// by all readers and must not be changed.
type Notice struct {
	Thread  string
	Entries []mailroom.Entry // committed, consecutive, in commit order
	Delta   *mailroom.Delta  // live text
	Flushed *Flushed         // text of a message reached the store
}

// Flushed tells that the first Upto bytes of a message's text are in the store.
type Flushed struct {
	Run     string
	Attempt int
	Message string
	Upto    int
}

// Bus connects publishers and subscribers. It has no goroutines of its own.
type Bus struct {
	// mu guards the sets. It is held for reading while a notice is handed
	// out, so that a subscription is never closed under a send.
	mu            sync.RWMutex
	threads       map[string]map[*Subscription]struct{} // "" holds those of every thread
	flushRequests map[*FlushRequests]struct{}
}

// New makes an empty bus.
func New() *Bus {
	return &Bus{
		threads:       make(map[string]map[*Subscription]struct{}),
		flushRequests: make(map[*FlushRequests]struct{}),
	}
}

// Publish hands n to the subscribers of its thread. It never waits for one: a
// subscription without room loses the notice and remembers that it did. What one
// goroutine publishes arrives in that order. It may be called concurrently.
func (b *Bus) Publish(n Notice) {
	size := 0
	for i := range n.Entries {
		size += len(n.Entries[i].JSON())
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for s := range b.threads[n.Thread] {
		s.offer(n, size)
	}
	if n.Thread == "" {
		return // a notice of no thread went to the readers of all just now
	}
	for s := range b.threads[""] {
		s.offer(n, size)
	}
}

// Subscribe returns a subscription to the notices of one thread, or of all with
// "". It buffers depth notices, at least one. The caller must close it.
func (b *Bus) Subscribe(thread string, depth int) *Subscription {
	return b.subscribe(thread, depth, false)
}

// SubscribeEntries is Subscribe for who wants notices with entries only: live
// text neither wakes it nor takes its room.
func (b *Bus) SubscribeEntries(thread string, depth int) *Subscription {
	return b.subscribe(thread, depth, true)
}

func (b *Bus) subscribe(thread string, depth int, entries bool) *Subscription {
	c := make(chan Notice, max(depth, 1))
	s := &Subscription{C: c, bus: b, thread: thread, entries: entries, c: c}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.threads[thread] == nil {
		b.threads[thread] = make(map[*Subscription]struct{})
	}
	b.threads[thread][s] = struct{}{}
	return s
}

// Subscription receives notices on C, which is closed by Close.
type Subscription struct {
	C <-chan Notice

	// Set once by Subscribe.
	bus     *Bus
	thread  string
	entries bool // nothing else is wanted
	c       chan Notice

	lost atomic.Bool
}

// offer hands over a notice whose entries have size bytes, if there is room: for
// few that are large, or for many that are not.
func (s *Subscription) offer(n Notice, size int) {
	if s.entries && len(n.Entries) == 0 {
		return
	}
	if size >= largeNotice && len(s.c) > 0 {
		s.lost.Store(true)
		return
	}
	select {
	case s.c <- n:
	default:
		s.lost.Store(true)
	}
}

// Lost reports whether a notice was dropped for want of room since the last
// call. Who reads the store after it returned true has missed nothing that was
// committed before.
func (s *Subscription) Lost() bool { return s.lost.Swap(false) }

// Close ends the subscription and closes C. It may be called more than once.
func (s *Subscription) Close() {
	b := s.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	set := b.threads[s.thread]
	if _, open := set[s]; !open {
		return
	}
	delete(set, s)
	if len(set) == 0 {
		delete(b.threads, s.thread)
	}
	close(s.c)
}
