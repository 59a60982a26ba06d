package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mailroom"
)

const (
	// smallBody is the size, in bytes, up to which a body may use the reserved part of the budget.
	smallBody = 64 << 10
	// bodyWait is how long a request waits for room for its body.
	bodyWait = 2 * time.Second
)

// budget bounds the bytes of request bodies in memory, from before they are read until their
// requests are answered. An owner gets at most share, and bodies larger than smallBody leave an
// eighth of the total free.
type budget struct {
	// Set by newBudget.
	total, share int64

	mu      sync.Mutex
	used    int64            // owned by mu
	held    map[string]int64 // owned by mu; by owner
	changed chan struct{}    // owned by mu; closed and replaced when bytes are released
}

// newBudget makes a budget with room for the largest body in total and in a share.
func newBudget(total, largest int64) *budget {
	total = max(total, largest+largest/4)
	return &budget{total: total, share: max(total/4, largest), held: map[string]int64{}, changed: make(chan struct{})}
}

// charge is the part of a budget that one request holds. It belongs to the request's goroutine. The
// zero value has no budget and charges nothing.
type charge struct {
	budget *budget
	owner  string
	bytes  int64
}

// resize makes c cover n bytes. It waits up to bodyWait for room.
func (c *charge) resize(ctx context.Context, n int64) error {
	if c.budget == nil {
		return nil
	}
	if n <= c.bytes {
		c.budget.release(c.owner, c.bytes-n)
		c.bytes = n
		return nil
	}
	timer := time.NewTimer(bodyWait)
	defer timer.Stop()
	for {
		changed, err := c.budget.reserve(c.owner, n-c.bytes, n)
		if err == nil {
			c.bytes = n
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reserve takes n more bytes for a body of size bytes. If there is no room, it returns the refusal
// and a channel that is closed when bytes are released.
func (b *budget) reserve(owner string, n, size int64) (changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.total
	if size > smallBody {
		most -= most / 8
	}
	switch {
	case b.held[owner]+n > b.share:
		return b.changed, &mailroom.Error{
			Code: mailroom.CodeRateLimited, RetryAfter: time.Second,
			Message: fmt.Sprintf("concurrent request bodies of this caller exceed %d bytes: send fewer at a time", b.share),
		}
	case b.used+n > most:
		return b.changed, &mailroom.Error{
			Code: mailroom.CodeUnavailable, RetryAfter: time.Second, Message: "too many large requests at once: try again",
		}
	}
	b.used += n
	b.held[owner] += n
	return nil, nil
}

func (b *budget) release(owner string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.held[owner] -= n; b.held[owner] == 0 {
		delete(b.held, owner)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}
