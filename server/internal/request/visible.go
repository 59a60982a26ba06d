package request

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/store"
)

// All handlers read threads, runs, tickets and messages through these functions, which check the rights of the caller.
// What the caller may not see yields the same not_found error as what does not exist.

// FindThread returns a thread. The error is not_found if the thread does not exist or if the token who may not see it.
func FindThread(rd store.Reader, who *auth.Token, id string) (*mailroom.Thread, error) {
	rows, err := rd.Threads(store.ThreadQuery{IDs: []string{id}})
	if err == nil && (len(rows) == 0 || !who.CanSee(rows[0])) {
		err = mailroom.Errorf(mailroom.CodeNotFound, "no thread %q", id)
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// FindRun returns a run and its thread. The error is not_found if the run does not exist or if the token who may not
// see its thread.
func FindRun(rd store.Reader, who *auth.Token, id string) (*mailroom.Run, *mailroom.Thread, error) {
	rows, err := rd.Runs(store.RunQuery{IDs: []string{id}})
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 1 && (who.Terms.Run == "" || who.Terms.Run == id) {
		t, err := FindThread(rd, who, rows[0].Thread)
		if mailroom.CodeOf(err) != mailroom.CodeNotFound {
			return rows[0], t, err
		}
	}
	return nil, nil, mailroom.Errorf(mailroom.CodeNotFound, "no run %q", Truncate(id))
}

// findTicket returns a ticket. The error is not_found if the ticket does not exist or if the token who may not see its
// thread.
func findTicket(rd store.Reader, who *auth.Token, id string) (*mailroom.Ticket, error) {
	rows, err := rd.Tickets(store.TicketQuery{IDs: []string{id}})
	if err != nil {
		return nil, err
	}
	if len(rows) == 1 && (who.Terms.Run == "" || who.Terms.Run == rows[0].Run) {
		_, err := FindThread(rd, who, rows[0].Thread)
		if mailroom.CodeOf(err) != mailroom.CodeNotFound {
			return rows[0], err
		}
	}
	return nil, mailroom.Errorf(mailroom.CodeNotFound, "no ticket %q", Truncate(id))
}

// VisibleThreads returns, by id, those of the threads that exist and that the token who may see.
func VisibleThreads(rd store.Reader, who *auth.Token, threads []string) (map[string]*mailroom.Thread, error) {
	out := map[string]*mailroom.Thread{}
	if len(threads) == 0 {
		return out, nil
	}
	slices.Sort(threads)
	rows, err := rd.Threads(store.ThreadQuery{IDs: slices.Compact(threads)})
	for _, t := range rows {
		if who.CanSee(t) {
			out[t.ID] = t
		}
	}
	return out, err
}

// OwnerOfAll returns the owner of all threads that the token who may see, or "" if they may have several owners.
func OwnerOfAll(who *auth.Token) string {
	if who.SeesAll() || who.Namespace != "" {
		return ""
	}
	return who.Name
}

// Viewer is the part of a ledger that reads the store.
type Viewer interface {
	View(ctx context.Context, f func(store.Reader) error) error
}

// Lookup finds what is visible to the caller of a request.
type Lookup struct{ Ledger Viewer }

// View calls f with a snapshot of the store.
func (l Lookup) View(ctx context.Context, f func(store.Reader) error) error {
	return l.Ledger.View(ctx, f)
}

// Thread returns a thread that is visible to the caller.
func (l Lookup) Thread(ctx context.Context, id string) (out *mailroom.Thread, err error) {
	err = l.View(ctx, func(rd store.Reader) (err error) {
		out, err = FindThread(rd, CallerOf(ctx), id)
		return err
	})
	return out, err
}

// Run returns a run that is visible to the caller. A run never moves to another thread and ids
// are not reused, so a later transaction can use the id without a second check.
func (l Lookup) Run(ctx context.Context, id string) (out *mailroom.Run, err error) {
	err = l.View(ctx, func(rd store.Reader) (err error) {
		out, _, err = FindRun(rd, CallerOf(ctx), id)
		return err
	})
	return out, err
}

// Ticket returns a ticket that is visible to the caller. A later transaction can use its id, as with
// Run.
func (l Lookup) Ticket(ctx context.Context, id string) (out *mailroom.Ticket, err error) {
	err = l.View(ctx, func(rd store.Reader) (err error) {
		out, err = findTicket(rd, CallerOf(ctx), id)
		return err
	})
	return out, err
}

// ShownRun returns a run for the caller.
func (l Lookup) ShownRun(ctx context.Context, id string) (out api.Run, err error) {
	out, _, err = l.ShownRunIf(ctx, id, nil)
	return out, err
}

// ShownRunIf returns a run for the caller if the function wanted accepts the run, which nil always does. Otherwise it
// returns the thread of the run, and saves the rows that only the answer needs.
func (l Lookup) ShownRunIf(
	ctx context.Context, id string, wanted func(*mailroom.Run) bool,
) (out api.Run, other *mailroom.Thread, err error) {
	err = l.View(ctx, func(rd store.Reader) error {
		r, t, err := FindRun(rd, CallerOf(ctx), id)
		if err != nil {
			return err
		}
		if wanted != nil && !wanted(r) {
			other = t
			return nil
		}
		shown, err := ShowRunsTo(rd, CallerOf(ctx), []*mailroom.Run{r})
		if err == nil {
			out = shown[0]
		}
		return err
	})
	return out, other, err
}
