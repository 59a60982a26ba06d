package request

import (
	"slices"
	"sync"
	"time"
)

const (
	// smallFrame is the size, in bytes, of a frame or event that is always admitted.
	smallFrame = 4 << 10
	// minSlowTime is how long a reader may leave bytes unread before it can be cut off to make
	// room.
	minSlowTime = time.Second
)

// Backlog bounds the unread bytes of streams and sockets, per token and in total. A writer without
// room waits, and the reader with the oldest unread bytes is cut off: one of the same token if its
// share is full, else one of all.
type Backlog struct {
	// Set by NewBacklog.
	total, share int64

	mu      sync.Mutex
	used    int64            // owned by mu
	held    map[string]int64 // owned by mu; by token
	entries []*Unread        // owned by mu; oldest first
	waiting int              // owned by mu; writers waiting for changed
	changed chan struct{}    // owned by mu; closed and replaced when bytes are released
}

// Unread is the unread bytes of one reader. Its writer sends one piece at a time.
type Unread struct {
	Cut func() // ends the pending write without blocking; set once

	// Owned by Backlog.mu.
	who   string
	bytes int64
	since time.Time
	slow  bool // cut was called
}

func NewBacklog(total, share int) *Backlog {
	return &Backlog{total: int64(total), share: int64(share), held: map[string]int64{}, changed: make(chan struct{})}
}

// Acquire counts n bytes as unread by the reader e, once there is room for them. After true, the caller must call
// Release. It returns false if done closes first.
func (b *Backlog) Acquire(e *Unread, who string, n int, done <-chan struct{}) bool {
	for {
		changed, wait := b.tryAcquire(e, who, int64(n))
		if changed == nil {
			return true
		}
		timer := time.NewTimer(wait)
		ended := false
		select {
		case <-changed:
		case <-timer.C:
		case <-done:
			ended = true
		}
		timer.Stop()
		b.mu.Lock()
		b.waiting--
		b.mu.Unlock()
		if ended {
			return false
		}
	}
}

// tryAcquire counts n bytes. Without room it returns a channel that is closed when bytes are
// released, and when to try to cut off a reader again.
func (b *Backlog) tryAcquire(e *Unread, who string, n int64) (changed <-chan struct{}, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	share := b.held[who] > 0 && b.held[who]+n > b.share
	total := b.used > 0 && b.used+n > b.total
	if n <= smallFrame || !share && !total {
		e.who, e.bytes, e.since, e.slow = who, n, now, false
		b.entries = append(b.entries, e)
		b.used += n
		b.held[who] += n
		return nil, 0
	}
	b.waiting++
	for _, slow := range b.entries {
		if share && slow.who != who || slow.bytes <= smallFrame {
			continue
		}
		wait = minSlowTime - now.Sub(slow.since)
		if wait <= 0 && !slow.slow {
			slow.slow = true
			slow.Cut()
		}
		break // cuts one stream at a time, because each one makes room
	}
	if wait <= 0 {
		wait = minSlowTime
	}
	return b.changed, wait
}

// Release ends what Acquire counted, whether the reader got the bytes or not.
func (b *Backlog) Release(e *Unread) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.entries) - 1; i >= 0; i-- { // most readers finish at once, so the entry is near the end
		if b.entries[i] == e {
			b.entries = slices.Delete(b.entries, i, i+1)
			break
		}
	}
	b.used -= e.bytes
	if b.held[e.who] -= e.bytes; b.held[e.who] == 0 {
		delete(b.held, e.who)
	}
	if b.waiting > 0 {
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

// Bytes is the number of unread bytes of all readers.
func (b *Backlog) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
