package request

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"mailroom"
)

const (
	// SmallBody is the size, in bytes, up to which a body may use the reserved part of the budget.
	SmallBody = 64 << 10
	// BodyWait is how long a request waits for room for its body.
	BodyWait = 2 * time.Second
)

// Budget bounds the bytes of request bodies in memory, from before they are read until their
// requests are answered. An owner gets at most share, and bodies larger than SmallBody leave an
// eighth of the total free.
type Budget struct {
	// Set by NewBudget.
	total, share int64

	mu      sync.Mutex
	used    int64            // owned by mu
	held    map[string]int64 // owned by mu; by owner
	changed chan struct{}    // owned by mu; closed and replaced when bytes are released
}

// NewBudget makes a budget of total bytes. It raises the total, and the share of an owner, if a body of largest bytes
// would not fit.
func NewBudget(total, largest int64) *Budget {
	total = max(total, largest+largest/4)
	return &Budget{total: total, share: max(total/4, largest), held: map[string]int64{}, changed: make(chan struct{})}
}

// Held returns the bytes that all requests hold, and the number of owners.
func (b *Budget) Held() (bytes int64, owners int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, len(b.held)
}

// Charge is the part of a budget that one request holds. It belongs to the request's goroutine. The
// zero value has no budget and charges nothing.
type Charge struct {
	budget *Budget
	owner  string
	bytes  int64
}

// Resize makes c cover n bytes. It waits up to BodyWait for room.
func (c *Charge) Resize(ctx context.Context, n int64) error {
	if c.budget == nil {
		return nil
	}
	if n <= c.bytes {
		c.budget.release(c.owner, c.bytes-n)
		c.bytes = n
		return nil
	}
	changed, err := c.budget.reserve(c.owner, n-c.bytes, n)
	if err == nil {
		c.bytes = n
		return nil
	}
	timer := time.NewTimer(BodyWait)
	defer timer.Stop()
	for {
		select {
		case <-changed:
		case <-timer.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		if changed, err = c.budget.reserve(c.owner, n-c.bytes, n); err == nil {
			c.bytes = n
			return nil
		}
	}
}

// reserve takes n more bytes for a body of size bytes. If there is no room, it returns the refusal
// and a channel that is closed when bytes are released.
func (b *Budget) reserve(owner string, n, size int64) (changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.total
	if size > SmallBody {
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

func (b *Budget) release(owner string, n int64) {
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

// NewCharge makes a charge of owner that holds no bytes yet.
func NewCharge(b *Budget, owner string) Charge { return Charge{budget: b, owner: owner} }

type chargedKey struct{}

// WithCharged marks the context of a request made from a body or frame that its sender was charged
// for.
func WithCharged(ctx context.Context) context.Context {
	return context.WithValue(ctx, chargedKey{}, true)
}

// IsCharged reports whether WithCharged has marked ctx.
func IsCharged(ctx context.Context) bool { return ctx.Value(chargedKey{}) != nil }

// ReadAll reads a body of size bytes, or of unknown size if size is negative. It charges c for the
// memory before it allocates it.
func ReadAll(ctx context.Context, r io.Reader, size int64, c *Charge) ([]byte, error) {
	if size >= 0 {
		if err := c.Resize(ctx, size); err != nil {
			return nil, err
		}
		raw := make([]byte, size)
		n, err := io.ReadFull(r, raw)
		return raw[:n], err
	}
	var raw []byte
	for room := int64(0); ; {
		if int64(len(raw)) == room {
			room = max(4<<10, 2*room)
			if err := c.Resize(ctx, room); err != nil {
				return nil, err
			}
			raw = slices.Grow(raw, int(room)-len(raw))
		}
		n, err := r.Read(raw[len(raw):room])
		raw = raw[:len(raw)+n]
		if err == io.EOF {
			return raw, c.Resize(ctx, int64(len(raw)))
		}
		if err != nil {
			return nil, err
		}
	}
}
