package server

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

// backlog bounds the unread bytes of streams and sockets, per token and in total. A writer without
// room waits, and the reader with the oldest unread bytes is cut off: one of the same token if its
// share is full, else one of all.
type backlog struct {
	// // Set by newBacklog.
	total, share int64

	mu      sync.Mutex
	used    int64            // owned by mu
	held    map[string]int64 // owned by mu; by token
	entries []*backlogEntry  // owned by mu; oldest first
	waiting int              // owned by mu; writers waiting for changed
	changed chan struct{}    // owned by mu; closed and replaced when bytes are released
}

// backlogEntry is the unread bytes of one reader. Its writer sends one piece at a time.
type backlogEntry struct {
	cut func() // ends the pending write without blocking; set once

	// Owned by backlog.mu.
	who   string
	bytes int64
	since time.Time
	slow  bool // cut was called
}

func newBacklog(total, share int) *backlog {
	return &backlog{total: int64(total), share: int64(share), held: map[string]int64{}, changed: make(chan struct{})}
}

// acquire counts n bytes for a reader once there is room. The caller must call release. It returns
// false if done closes first.
func (u *backlog) acquire(g *backlogEntry, who string, n int, done <-chan struct{}) bool {
	for {
		changed, wait := u.tryAcquire(g, who, int64(n))
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
		u.mu.Lock()
		u.waiting--
		u.mu.Unlock()
		if ended {
			return false
		}
	}
}

// tryAcquire counts n bytes. Without room it returns a channel that is closed when bytes are
// released, and when to try to cut off a reader again.
func (u *backlog) tryAcquire(g *backlogEntry, who string, n int64) (changed <-chan struct{}, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	share := u.held[who] > 0 && u.held[who]+n > u.share
	total := u.used > 0 && u.used+n > u.total
	if n <= smallFrame || !share && !total {
		g.who, g.bytes, g.since, g.slow = who, n, now, false
		u.entries = append(u.entries, g)
		u.used += n
		u.held[who] += n
		return nil, 0
	}
	u.waiting++
	for _, slow := range u.entries {
		if share && slow.who != who || slow.bytes <= smallFrame {
			continue
		}
		wait = minSlowTime - now.Sub(slow.since)
		if wait <= 0 && !slow.slow {
			slow.slow = true
			slow.cut()
		}
		break // one at a time: each makes room
	}
	if wait <= 0 {
		wait = minSlowTime
	}
	return u.changed, wait
}

// release ends what acquire counted, whether the reader got the bytes or not.
func (u *backlog) release(g *backlogEntry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := len(u.entries) - 1; i >= 0; i-- { // most readers finish at once, so the entry is near the end
		if u.entries[i] == g {
			u.entries = slices.Delete(u.entries, i, i+1)
			break
		}
	}
	u.used -= g.bytes
	if u.held[g.who] -= g.bytes; u.held[g.who] == 0 {
		delete(u.held, g.who)
	}
	if u.waiting > 0 {
		close(u.changed)
		u.changed = make(chan struct{})
	}
}

// bytes is the number of unread bytes of all readers.
func (u *backlog) bytes() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.used
}
