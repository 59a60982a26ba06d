package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom"
)

// tellAfter is how long a server may be away before anybody is told, or will have
// been when it is tried again: a restart takes less.
const tellAfter = 2 * time.Second

// reconnect decides whether and when to try again. It belongs to one call.
type reconnect struct {
	options   options
	pauses    interface{ NextBackOff() time.Duration }
	reset     func()
	connected bool      // was reached once
	failures  uint      // since the last progress
	since     time.Time // of the first of them
	told      bool      // that the server is away
}

func (c *Client) newReconnect() *reconnect {
	b := c.pauses()
	return &reconnect{options: c.options, pauses: b, reset: b.Reset}
}

// progress notes that the server was heard.
func (r *reconnect) progress() {
	r.connected, r.failures = true, 0
	r.reset()
	if r.told {
		r.told = false
		r.options.away(nil)
	}
}

// pause waits before the next try, or returns the error to give up with.
func (r *reconnect) pause(ctx context.Context, err error) error {
	code := mailroom.CodeOf(err)
	if code != mailroom.CodeUnavailable && code != mailroom.CodeRateLimited {
		return err
	}
	if r.failures++; r.failures == 1 {
		r.since = time.Now()
	}
	away := time.Since(r.since)
	if !r.connected && r.failures >= r.options.tries {
		return err
	}
	if r.connected && r.options.patience > 0 && away > r.options.patience {
		return fmt.Errorf("gave up after %s: %w", away.Round(time.Second), err)
	}
	if ctx.Err() != nil {
		return err // which has the cause in its tree
	}
	wait := r.pauses.NextBackOff()
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		wait = max(wait, e.RetryAfter)
	}
	if r.connected && !r.told && away+wait >= tellAfter {
		r.told = true
		r.options.away(err)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
}
