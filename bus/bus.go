// Package bus carries hints between the parts of one process: committed entries, live text of
// runs, and requests to flush text. A [Relay] carries hints between the servers on one store.
//
// A notice may arrive late, twice, out of order or not at all. A loss may delay a reader but must
// never change what it reads: the store has the truth.
package bus

import (
	"sync"
	"sync/atomic"

	"mailroom"
	"mailroom/entry"
)

// largeNotice is the size in bytes from which a notice is not buffered for a reader that is behind.
// The reader finds the entries in the store.
const largeNotice = 64 << 10

// Notice announces an event in a thread. All readers share its values and must not change them.
type Notice struct {
	Thread  string
	Entries []mailroom.Entry // committed, consecutive, in commit order
	Delta   *entry.Delta     // live text
	Flushed *Flushed         // text of a message reached the store
}

// Flushed reports that the first Upto bytes of a message's text are in the store.
type Flushed struct {
	Run     string
	Attempt int
	Message string
	Upto    int
}

// Bus connects publishers and subscribers. It has no goroutines of its own.
type Bus struct {
	// mu guards the sets. Publish holds it for reading, so that no channel is closed during a send.
	mu            sync.RWMutex
	threads       map[string]map[*Subscription]struct{} // subscriptions by thread; "" has the subscriptions to all threads
	flushRequests map[*FlushRequests]struct{}

	relay atomic.Pointer[Relay] // nil: the bus exchanges no notices with other servers
}

// New returns an empty bus.
func New() *Bus {
	return &Bus{
		threads:       make(map[string]map[*Subscription]struct{}),
		flushRequests: make(map[*FlushRequests]struct{}),
	}
}

// Publish sends n to the subscribers of its thread. It never blocks: a subscription without room
// loses the notice and records the loss. Notices of one goroutine arrive in order. Publish may be
// called concurrently.
func (b *Bus) Publish(n Notice) {
	size := 0
	for i := range n.Entries {
		size += len(n.Entries[i].Raw)
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	worker := false
	var shared *Notice // nil while nothing subscribes
	for s := range b.threads[n.Thread] {
		if shared == nil {
			shared = &Notice{n.Thread, n.Entries, n.Delta, n.Flushed}
		}
		s.offer(shared, size)
		worker = worker || s.entries
	}
	if n.Thread == "" {
		return // already sent to the subscribers of all threads
	}
	for s := range b.threads[""] {
		if shared == nil {
			shared = &Notice{n.Thread, n.Entries, n.Delta, n.Flushed}
		}
		s.offer(shared, size)
	}
	if r := b.relay.Load(); r != nil {
		r.onNotice(n, worker)
	}
}

// Subscribe returns a subscription to the notices of one thread, or of all threads with "". It
// buffers depth notices, at least one. The caller must close it.
func (b *Bus) Subscribe(thread string, depth int) *Subscription {
	return b.subscribe(thread, depth, false)
}

// SubscribeEntries is Subscribe limited to notices with entries. Live text neither wakes the reader
// nor uses its buffer.
func (b *Bus) SubscribeEntries(thread string, depth int) *Subscription {
	return b.subscribe(thread, depth, true)
}

func (b *Bus) subscribe(thread string, depth int, entries bool) *Subscription {
	c := make(chan *Notice, max(depth, 1))
	s := &Subscription{C: c, bus: b, thread: thread, entries: entries, c: c}
	b.mu.Lock()
	if b.threads[thread] == nil {
		b.threads[thread] = make(map[*Subscription]struct{})
	}
	b.threads[thread][s] = struct{}{}
	b.mu.Unlock()
	if r := b.relay.Load(); r != nil && !entries {
		r.onRead(thread)
	}
	return s
}

// Subscription receives notices on C, which Close closes. Subscriptions share them, so they must not be changed.
type Subscription struct {
	C <-chan *Notice // pointers: the buffer of an idle subscription is most of what it costs

	// Set once by Subscribe.
	bus     *Bus
	thread  string
	entries bool // the subscription gets only notices with entries
	c       chan *Notice

	lost atomic.Bool
}

// offer buffers a notice whose entries have size bytes if there is room: for one large notice, or
// for several small ones.
func (s *Subscription) offer(n *Notice, size int) {
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

// Lost reports whether a notice was lost since the last call. A reader that reads the store after
// true has missed nothing committed before.
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
