package server

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// Authorized lookups. A resource that the caller may not see yields the same not_found error as
// a missing one. All handlers read threads, runs, tickets and messages through these functions.

// findThread returns a thread, or not_found if it does not exist or who may not see it.
func findThread(rd store.Reader, who *auth.Token, id string) (*mailroom.Thread, error) {
	rows, err := rd.Threads(store.ThreadQuery{IDs: []string{id}})
	if err == nil && (len(rows) == 0 || !who.CanSee(rows[0])) {
		err = mailroom.Errorf(mailroom.CodeNotFound, "no thread %q", id)
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// findRun returns a run and its thread, or not_found if who may not see the thread.
func findRun(rd store.Reader, who *auth.Token, id string) (*mailroom.Run, *mailroom.Thread, error) {
	rows, err := rd.Runs(store.RunQuery{IDs: []string{id}})
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 1 && (who.Terms.Run == "" || who.Terms.Run == id) {
		t, err := findThread(rd, who, rows[0].Thread)
		if mailroom.CodeOf(err) != mailroom.CodeNotFound {
			return rows[0], t, err
		}
	}
	return nil, nil, mailroom.Errorf(mailroom.CodeNotFound, "no run %q", request.Truncate(id))
}

// findTicket returns a ticket, or not_found if who may not see its thread.
func findTicket(rd store.Reader, who *auth.Token, id string) (*mailroom.Ticket, error) {
	rows, err := rd.Tickets(store.TicketQuery{IDs: []string{id}})
	if err != nil {
		return nil, err
	}
	if len(rows) == 1 && (who.Terms.Run == "" || who.Terms.Run == rows[0].Run) {
		_, err := findThread(rd, who, rows[0].Thread)
		if mailroom.CodeOf(err) != mailroom.CodeNotFound {
			return rows[0], err
		}
	}
	return nil, mailroom.Errorf(mailroom.CodeNotFound, "no ticket %q", request.Truncate(id))
}

// visibleThreads returns, by id, those of the threads that exist and are visible to who.
func visibleThreads(rd store.Reader, who *auth.Token, threads []string) (map[string]*mailroom.Thread, error) {
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

// ownerOfAll returns the owner of all threads that who may see, "" if they have several owners.
func ownerOfAll(who *auth.Token) string {
	if who.SeesAll() || who.Namespace != "" {
		return ""
	}
	return who.Name
}

// Viewer is the part of a ledger that reads the store.
type Viewer interface {
	View(ctx context.Context, f func(store.Reader) error) error
}

// lookup finds what is visible to the caller of a request.
type lookup struct{ ledger Viewer }

// view calls f with a snapshot of the store.
func (l lookup) view(ctx context.Context, f func(store.Reader) error) error {
	return l.ledger.View(ctx, f)
}

// thread returns a thread that is visible to the caller.
func (l lookup) thread(ctx context.Context, id string) (out *mailroom.Thread, err error) {
	err = l.view(ctx, func(rd store.Reader) (err error) {
		out, err = findThread(rd, requestOf(ctx).who, id)
		return err
	})
	return out, err
}

// run returns a run that is visible to the caller. A run never moves to another thread and ids
// are not reused, so a later transaction can use the id without a second check.
func (l lookup) run(ctx context.Context, id string) (out *mailroom.Run, err error) {
	err = l.view(ctx, func(rd store.Reader) (err error) {
		out, _, err = findRun(rd, requestOf(ctx).who, id)
		return err
	})
	return out, err
}

// ticket returns a ticket that is visible to the caller. A later transaction can use its id, as with
// run.
func (l lookup) ticket(ctx context.Context, id string) (out *mailroom.Ticket, err error) {
	err = l.view(ctx, func(rd store.Reader) (err error) {
		out, err = findTicket(rd, requestOf(ctx).who, id)
		return err
	})
	return out, err
}

// shownRun returns a run for the caller, and its thread in the same snapshot.
func (l lookup) shownRun(ctx context.Context, id string) (out api.Run, thread *mailroom.Thread, err error) {
	err = l.view(ctx, func(rd store.Reader) error {
		r, t, err := findRun(rd, requestOf(ctx).who, id)
		if err != nil {
			return err
		}
		thread = t
		shown, err := request.ShowRuns(rd, []*mailroom.Run{r})
		if err == nil {
			out = shown[0]
		}
		return err
	})
	return out, thread, err
}
