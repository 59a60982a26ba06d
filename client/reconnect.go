package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom"
)

// outageAfter is how long a server may be unreachable, up to the next attempt, before the client reports an outage. A
// restart of the server takes less time.
const outageAfter = 2 * time.Second

// reconnect decides whether and when a call reconnects. It belongs to one call.
type reconnect struct {
	options   options
	pauses    interface{ NextBackOff() time.Duration }
	reset     func()
	connected bool      // the server has been reached once
	failures  uint      // since the last progress
	since     time.Time // time of the first of these failures
	reported  bool      // the outage was reported
}

func (c *Client) newReconnect() *reconnect {
	b := c.pauses()
	return &reconnect{options: c.options, pauses: b, reset: b.Reset}
}

// progress resets the backoff, because the server has answered.
func (r *reconnect) progress() {
	r.connected, r.failures = true, 0
	r.reset()
	if r.reported {
		r.reported = false
		r.options.onOutage(nil)
	}
}

// pause waits before the next attempt. It returns the error if the call has to give up.
func (r *reconnect) pause(ctx context.Context, err error) error {
	code := mailroom.CodeOf(err)
	if code != mailroom.CodeUnavailable && code != mailroom.CodeRateLimited {
		return err
	}
	if r.failures++; r.failures == 1 {
		r.since = time.Now()
	}
	outage := time.Since(r.since)
	if !r.connected && r.failures >= r.options.attempts {
		return err
	}
	if r.connected && r.options.retryFor > 0 && outage > r.options.retryFor {
		return fmt.Errorf("gave up after %s: %w", outage.Round(time.Second), err)
	}
	if ctx.Err() != nil {
		return err // err wraps the cause
	}
	wait := r.pauses.NextBackOff()
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		wait = max(wait, e.RetryAfter)
	}
	if r.connected && !r.reported && outage+wait >= outageAfter {
		r.reported = true
		r.options.onOutage(err)
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
