package mail

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Flush sends the queued calls in order, as far as the command's time allows. Unsent calls stay
// queued. It does nothing while another command is sending.
func (b *Client) Flush(ctx context.Context) {
	if b == nil {
		return
	}
	defer b.client.CloseIdleConnections()
	// Most commands find an empty queue. They take no lock and write nothing, so that a command does not wait for
	// another one without need.
	if all, err := b.place.read(); err == nil && (all.Servers[b.digest] == nil || len(all.Servers[b.digest].Queued) == 0) {
		return
	}
	for !b.disabled {
		kept := b.beginFlush(ctx)
		if len(kept) == 0 {
			return
		}
		var sent []Call
		var bad *result
		for _, c := range kept {
			if !b.hasTime() {
				break
			}
			r := b.send(ctx, c.request())
			if r.verdict == verdictFailed {
				bad = &r
				break
			}
			if r.verdict != verdictDone {
				b.warnOnce("%s; the call is dropped", r.reason)
			}
			sent = append(sent, c)
		}
		b.endFlush(ctx, sent, bad)
		if len(sent) < len(kept) {
			return
		}
	}
}

// hasTime reports whether enough time is left for a request. A request that is given too little time would make a
// server that works look dead.
func (b *Client) hasTime() bool { return b.timeLeft() > b.settings.Timeout/2 }

// beginFlush makes this command the sender and returns the queued calls.
func (b *Client) beginFlush(ctx context.Context) (kept []Call) {
	b.update(ctx, func(s *server, now time.Time) bool {
		s.Queued = slices.DeleteFunc(s.Queued, func(c Call) bool { return c.expired(now) })
		off := s.activeBackoff(now)
		if off != nil && len(s.Queued) > 0 {
			b.skipServer(off, now)
		}
		if off != nil || len(s.Queued) == 0 || s.busy(b.command, now) || !b.hasTime() {
			return false
		}
		s.Sender = &sender{Command: b.command, Until: now.Add(b.timeLeft() + grace)}
		kept = slices.Clone(s.Queued)
		return true
	})
	return kept
}

// endFlush removes the calls that were sent, and starts a backoff if the server failed.
func (b *Client) endFlush(ctx context.Context, sent []Call, bad *result) {
	rest := 0
	b.update(ctx, func(s *server, now time.Time) bool {
		s.Queued = slices.DeleteFunc(s.Queued, func(c Call) bool {
			return slices.ContainsFunc(sent, func(was Call) bool { return was.equal(c) })
		})
		if s.Sender != nil && s.Sender.Command == b.command {
			s.Sender = nil
		}
		if bad != nil {
			s.startBackoff(bad.reason, bad.retry, now)
		}
		rest = len(s.Queued)
		return true
	})
	if bad != nil {
		b.disabled = true
		b.warnOnce("%s; going on without it, %s queued", bad.reason, count(rest, "call is", "calls are"))
	}
}

// equal reports whether two values are the same queued call, and not only calls with equal content.
func (c Call) equal(other Call) bool {
	return c.Key == other.Key && c.Issue == other.Issue && c.Agent == other.Agent && c.At.Equal(other.At)
}

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// Status is the saved state of a server.
type Status struct {
	URL          string    // address of the server without secrets
	Agent        string    // holder of reservations
	BackoffUntil time.Time // end of the backoff; zero if there is none
	Reason       string    // why it is in backoff
	Queued       int       // queued calls
}

// Status reads the saved state of the server, without a request.
func (b *Client) Status() (Status, error) {
	out := Status{URL: b.name, Agent: b.settings.Agent}
	all, err := b.place.read()
	if s := all.Servers[b.digest]; err == nil && s != nil {
		now := time.Now()
		if off := s.activeBackoff(now); off != nil {
			out.BackoffUntil, out.Reason = off.Until, off.Reason
		}
		for _, c := range s.Queued {
			if !c.expired(now) {
				out.Queued++
			}
		}
	}
	return out, err
}
