package engine

import (
	"context"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// Wait returns the tickets if the wait is over. Otherwise it parks the run: the settle after the
// agent's return opens the new tickets.
func (s *session) Wait(ctx context.Context, any bool, asks ...mailroom.Ask) ([]mailroom.Ticket, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.turn.leave()
	return s.wait(ctx, any, asks)
}

// wait is Wait for a caller that holds turn.
func (s *session) wait(ctx context.Context, any bool, asks []mailroom.Ask) ([]mailroom.Ticket, error) {
	known, err := s.tickets(ctx)
	if err != nil {
		return nil, err
	}
	w := &mailroom.Wait{Any: any}
	var fresh []mailroom.Ask
	for i := range asks {
		a := &asks[i]
		if a.Kind != "" {
			if err := thread.CheckAsk(a); err != nil {
				return nil, err
			}
		}
		w.Names = append(w.Names, a.Name)
		k, ok := known[a.Name]
		switch {
		case !ok && a.Kind == "":
			return nil, mailroom.Errorf(mailroom.CodeInvalid, "unknown ticket %q: give a kind to open it", a.Name)
		case !ok:
			fresh = append(fresh, *a)
		case a.Kind != "" && thread.AskDigest(a) != k.Digest:
			return nil, mailroom.Errorf(mailroom.CodeConflict, "ticket %q already exists with different content", a.Name)
		}
	}
	open := func(name string) bool {
		k, ok := known[name]
		return !ok || k.State == mailroom.TicketOpen
	}
	if len(w.Names) == 0 || !w.Ended(open) {
		if len(w.Names) == 0 {
			return nil, mailroom.Errorf(mailroom.CodeInvalid, "missing ticket: a wait needs at least one")
		}
		s.parked, s.asks = w, fresh
		return nil, mailroom.ErrParked
	}
	var out []mailroom.Ticket
	for _, name := range w.Names {
		if k, ok := known[name]; ok {
			out = append(out, *k)
		}
	}
	return out, nil
}

// tickets returns the run's tickets by name.
func (s *session) tickets(ctx context.Context) (map[string]*mailroom.Ticket, error) {
	found, err := ask(ctx, s, func(ctx context.Context) ([]*mailroom.Ticket, error) {
		return s.engine.ledger.Tickets(ctx, store.TicketQuery{Runs: []string{s.claim.Run}})
	})
	known := map[string]*mailroom.Ticket{}
	for _, k := range found {
		if k.State != mailroom.TicketVoid { // void: from before a fresh retry
			known[k.Name] = k
		}
	}
	return known, err
}
