package server

import (
	"slices"
	"sync"
	"time"
)

const (
	// smallFrame is, in bytes, a frame or event that always finds room.
	smallFrame = 4 << 10
	// minSlowTime is how long a reader has for what it was given before it can be cut off
	// for want of room.
	minSlowTime = time.Second
)

// backlog bounds the bytes of frames and events that readers were given and have not taken
// yet, those of one token and of all. Where there is no room, the writer waits, and the
// reader that has had its bytes for longest is cut off: of that token, if it is its share
// that is full, or of all.
type backlog struct {
	// Set by newUnread.
	total, share int64

	mu      sync.Mutex
	used    int64            // owned by mu
	held    map[string]int64 // owned by mu; by token
	entries []*backlogEntry  // owned by mu; oldest first
	waiting int              // owned by mu; writers that wait for changed
	changed chan struct{}    // owned by mu; closed and replaced when bytes were taken
}

// backlogEntry is what one reader has not taken. Its writer gives one thing at a time.
type backlogEntry struct {
	cut func() // ends the write that is under way, without blocking; set once

	// Owned by unread.mu.
	who   string
	bytes int64
	since time.Time
	slow  bool // it was cut off
}

func newBacklog(total, share int) *backlog {
	return &backlog{total: int64(total), share: int64(share), held: map[string]int64{}, changed: make(chan struct{})}
}

// acquire counts n bytes for a reader of a token, once there is room; take must follow. It
// reports false if gone ended before.
func (u *backlog) acquire(g *backlogEntry, who string, n int, gone <-chan struct{}) bool {
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
		case <-gone:
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

// tryAcquire counts n bytes, or returns what ends when there may be room, and when a reader
// can be cut off for it.
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
		break // one at a time: it makes room
	}
	if wait <= 0 {
		wait = minSlowTime
	}
	return u.changed, wait
}

// release counts what g was given as taken, or as given up.
func (u *backlog) release(g *backlogEntry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := len(u.entries) - 1; i >= 0; i-- { // most readers take at once what came last
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

// bytes is how much all readers together have not taken.
func (u *backlog) bytes() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.used
}
