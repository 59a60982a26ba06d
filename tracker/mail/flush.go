package mail

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Flush sends what is kept, in order, as far as the command's time goes. What
// could not be sent stays kept, and so does what another command is sending.
func (b *Box) Flush(ctx context.Context) {
	if b == nil {
		return
	}
	defer b.client.CloseIdleConnections()
	// Most commands find nothing kept, and so lock nothing and write nothing.
	if all, err := b.place.read(); err == nil && (all.Servers[b.digest] == nil || len(all.Servers[b.digest].Kept) == 0) {
		return
	}
	for !b.quiet {
		kept := b.sending(ctx)
		if len(kept) == 0 {
			return
		}
		var sent []Call
		var bad *result
		for _, c := range kept {
			if !b.worth() {
				break
			}
			r := b.ask(ctx, c.request())
			if r.verdict == failed {
				bad = &r
				break
			}
			if r.verdict != done {
				b.say("%s; it is not told again", r.reason)
			}
			sent = append(sent, c)
		}
		b.sent(ctx, sent, bad)
		if len(sent) < len(kept) {
			return
		}
	}
}

// worth reports whether a server has time enough to answer. One that is asked in
// the last moment would be called dead for being slow.
func (b *Box) worth() bool { return b.left() > b.settings.Timeout/2 }

// sending makes the command the one that sends, and returns what there is to send.
func (b *Box) sending(ctx context.Context) (kept []Call) {
	b.update(ctx, func(s *server, now time.Time) bool {
		s.Kept = slices.DeleteFunc(s.Kept, func(c Call) bool { return c.stale(now) })
		off := s.silent(now)
		if off != nil && len(s.Kept) > 0 {
			b.silenced(off, now)
		}
		if off != nil || len(s.Kept) == 0 || s.busy(b.command, now) || !b.worth() {
			return false
		}
		s.Sender = &sender{Command: b.command, Until: now.Add(b.left() + grace)}
		kept = slices.Clone(s.Kept)
		return true
	})
	return kept
}

// sent forgets what was sent, and leaves a server alone that has failed.
func (b *Box) sent(ctx context.Context, sent []Call, bad *result) {
	rest := 0
	b.update(ctx, func(s *server, now time.Time) bool {
		s.Kept = slices.DeleteFunc(s.Kept, func(c Call) bool {
			return slices.ContainsFunc(sent, func(was Call) bool { return was.same(c) })
		})
		if s.Sender != nil && s.Sender.Command == b.command {
			s.Sender = nil
		}
		if bad != nil {
			s.fail(bad.reason, bad.retry, now)
		}
		rest = len(s.Kept)
		return true
	})
	if bad != nil {
		b.quiet = true
		b.say("%s; going on without it, %s kept for it", bad.reason, count(rest, "call is", "calls are"))
	}
}

// same reports whether a call is this one, and not a later one of its kind.
func (c Call) same(other Call) bool {
	return c.Key == other.Key && c.Issue == other.Issue && c.Agent == other.Agent && c.At.Equal(other.At)
}

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// Status is what is known of a server, without asking it.
type Status struct {
	URL    string    // without secrets
	Agent  string    // who reserves
	Silent time.Time // it is not asked before; zero: it is asked
	Reason string    // why
	Kept   int       // calls that are to be sent
}

// Status reads what is known of the server.
func (b *Box) Status() (Status, error) {
	out := Status{URL: b.name, Agent: b.settings.Agent}
	all, err := b.place.read()
	if s := all.Servers[b.digest]; err == nil && s != nil {
		now := time.Now()
		if off := s.silent(now); off != nil {
			out.Silent, out.Reason = off.Until, off.Reason
		}
		for _, c := range s.Kept {
			if !c.stale(now) {
				out.Kept++
			}
		}
	}
	return out, err
}
