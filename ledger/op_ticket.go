package ledger

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/thread"
)

// Decide decides a ticket, once. Repeating the same decision returns the ticket.
func (l *Ledger) Decide(ctx context.Context, d thread.Decision) (*mailroom.Ticket, error) {
	k, err := l.Ticket(ctx, d.Ticket)
	if err != nil {
		return nil, err
	}
	o := op{name: "decide", rank: rankPlain, size: len(d.Answer), threads: []string{k.Thread}, queues: true,
		runs: []string{k.Run}, audits: true}
	decided, err := run(ctx, l, o, func(tx *transaction) (*mailroom.Ticket, error) {
		t := tx.rows.thread(k.Thread)
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return nil, err
		}
		begin := len(t.Entries())
		k, err := t.Decide(d, tx.now())
		if err != nil {
			return nil, err
		}
		decided := *k // later operations of the batch may change the original
		if err := raiseDecided(tx, t, begin); err != nil {
			return nil, err
		}
		return &decided, recordDecisions(tx, t, begin)
	})
	if err == nil {
		onDecided(l, k.Thread)
	}
	return decided, err
}

// Ticket returns one ticket.
func (l *Ledger) Ticket(ctx context.Context, id string) (*mailroom.Ticket, error) {
	found, err := l.Workers().Tickets(ctx, store.TicketQuery{IDs: []string{id}})
	if err == nil && len(found) == 0 {
		err = mailroom.Errorf(mailroom.CodeNotFound, "no ticket %q", id)
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// Tickets returns the tickets of a query.
func (ws Workers) Tickets(ctx context.Context, q store.TicketQuery) (found []*mailroom.Ticket, err error) {
	err = ws.ledger.View(ctx, func(r store.Reader) error {
		found, err = r.Tickets(q)
		return err
	})
	return found, err
}

// ticketRuns returns the runs of the tickets to decide. Unknown tickets are skipped: the submit may
// be a repeat, which the transition answers.
func (l *Ledger) ticketRuns(ctx context.Context, decisions []thread.Decision) ([]string, error) {
	var runs []string
	var ids []string
	for _, d := range decisions {
		ids = append(ids, d.Ticket)
	}
	found, err := l.Workers().Tickets(ctx, store.TicketQuery{IDs: ids})
	for _, k := range found {
		runs = append(runs, k.Run)
	}
	slices.Sort(runs)
	return slices.Compact(runs), err
}

// maxDescendants bounds how many runs CancelTree ends.
const maxDescendants = 1000

// CancelTree cancels a run and its open descendants, including the descendants of finished runs, at
// most maxDescendants in all. Deliveries continue. So do runs in threads that who cannot see,
// because any token may name a run as the parent of its own.
func (l *Ledger) CancelTree(ctx context.Context, id string, who *auth.Token) (*mailroom.Run, error) {
	top, err := l.Cancel(ctx, id, who.Name)
	if err != nil {
		return nil, err
	}
	for todo, n := []string{id}, 0; len(todo) > 0 && n < maxDescendants; todo = todo[1:] {
		children, err := l.children(ctx, todo[0], who)
		if err != nil {
			return nil, err
		}
		for _, c := range children {
			if thread.IsDelivery(c.View()) {
				continue
			}
			todo = append(todo, c.ID)
			if n++; c.Status.Finished() {
				continue
			}
			_, err := l.Cancel(ctx, c.ID, who.Name)
			if code := mailroom.CodeOf(err); err != nil && code != mailroom.CodeConflict {
				return nil, err // a conflict: the run has just ended
			}
		}
	}
	return top, nil
}

// children returns the runs with this parent, in threads that who sees.
func (l *Ledger) children(ctx context.Context, id string, who *auth.Token) (found []*mailroom.Run, err error) {
	err = l.View(ctx, func(r store.Reader) error {
		if found, err = r.Runs(store.RunQuery{Parent: id, Limit: maxDescendants}); err != nil || len(found) == 0 {
			return err
		}
		var threads []string
		for _, c := range found {
			threads = append(threads, c.Thread)
		}
		rows, err := r.Threads(store.ThreadQuery{IDs: threads})
		seen := map[string]bool{}
		for _, t := range rows {
			seen[t.ID] = who.CanSee(t)
		}
		found = slices.DeleteFunc(found, func(c *mailroom.Run) bool { return !seen[c.Thread] })
		return err
	})
	return found, err
}
