package ledger

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/project"
	"mailroom/store"
)

// Projects are the operations on reservations and notifications.
type Projects struct{ ledger *Ledger }

// Projects returns the operations on reservations and notifications.
func (l *Ledger) Projects() Projects { return Projects{l} }

// Reserve reserves names in a project, all or none, and creates the project if there is none.
func (ps Projects) Reserve(ctx context.Context, in project.Reserve) (project.Reserved, error) {
	if err := in.Check(); err != nil {
		return project.Reserved{}, err
	}
	first, err := ps.reserve(ctx, in, true)
	if err != nil || !first.heavy {
		return first.Reserved, err
	}
	if err := ps.compareNames(ctx, &in); err != nil {
		return project.Reserved{}, err
	}
	second, err := ps.reserve(ctx, in, false)
	return second.Reserved, err
}

// reserveResult is the result of a reservation. If heavy is set, the caller must compare the names first.
type reserveResult struct {
	project.Reserved
	heavy bool
}

func (ps Projects) reserve(ctx context.Context, in project.Reserve, mayPutOff bool) (reserveResult, error) {
	reserve := func(tx *transaction, p *project.State) (reserveResult, error) {
		if err := p.CheckAccess(in.By, "holder", in.Holder); err != nil { // before the check of the owner's quota
			return reserveResult{}, err
		}
		if mayPutOff && p.NeedsCompare(&in) {
			return reserveResult{heavy: true}, nil
		}
		if adds := p.AddedBytes(&in, tx.now()); adds > 0 {
			if err := tx.checkProjectQuota(p, in.By, adds); err != nil {
				return reserveResult{}, err
			}
		}
		if err := tx.checkInboxLimit(p, in.Holder); err != nil {
			return reserveResult{}, err
		}
		out, err := p.Reserve(in, tx.now())
		if err == nil {
			_, err = tx.ensureInbox(p, in.Holder, in.By)
		}
		return reserveResult{Reserved: out}, err
	}
	return onProject(ctx, ps.ledger, "reserve", in.Project, 0, reserve)
}

// compareNames compares the names with the project's reservations outside of the committer.
func (ps Projects) compareNames(ctx context.Context, in *project.Reserve) error {
	thread, err := project.ThreadID(in.Project)
	if err != nil {
		return err
	}
	var threads []*mailroom.Thread
	var rows []store.Reservation
	err = ps.ledger.View(ctx, func(r store.Reader) error {
		if threads, err = r.Threads(store.ThreadQuery{IDs: []string{thread}}); err != nil || len(threads) == 0 {
			return err
		}
		rows, err = r.Reservations(store.ReservationQuery{Thread: thread})
		return err
	})
	if err == nil && len(threads) > 0 {
		in.Compare(threads[0], rows)
	}
	return err
}

// RenewReservation extends a reservation to ttl from now.
func (ps Projects) RenewReservation(ctx context.Context, id string, by *auth.Token,
	ttl time.Duration) (store.Reservation, error) {
	renew := func(tx *transaction, p *project.State) (store.Reservation, error) {
		return p.Renew(id, by, ttl, tx.now())
	}
	return ps.onReservation(ctx, op{name: "renew reservation"}, id, renew)
}

// Release ends a reservation. If force is set, an admin may end the reservation of another token.
func (ps Projects) Release(ctx context.Context, id string, by *auth.Token, force bool) (store.Reservation, error) {
	o := op{name: "release", audits: force}
	return ps.onReservation(ctx, o, id, func(tx *transaction, p *project.State) (store.Reservation, error) {
		row, err := p.Release(id, by, force, tx.now())
		if err != nil || row.Owner == by.Name {
			return row, err
		}
		return row, appendAudit(tx, entry.Audit{Action: "reservation.release", ObjectKind: "reservation", Object: id,
			Thread: row.Thread,
			Detail: map[string]string{"name": row.Name, "owner": row.Owner, "holder": row.Holder}})
	})
}

// ReleaseNames ends the agent's reservations of these names and returns them.
func (ps Projects) ReleaseNames(ctx context.Context, projectName, holder string, names []string,
	by *auth.Token) ([]store.Reservation, error) {
	release := func(tx *transaction, p *project.State) ([]store.Reservation, error) {
		return p.ReleaseNames(holder, names, by, tx.now())
	}
	return onProject(ctx, ps.ledger, "release", projectName, 0, release)
}

// Reservations returns the active reservations, ordered by project and fence: of one project, or
// with "" of all projects that who sees.
func (ps Projects) Reservations(ctx context.Context, projectName string,
	who *auth.Token) (found []store.Reservation, err error) {
	thread := ""
	if projectName != "" {
		if thread, err = project.ThreadID(projectName); err != nil {
			return nil, err
		}
	}
	err = ps.ledger.View(ctx, func(r store.Reader) error {
		if found, err = r.Reservations(store.ReservationQuery{Thread: thread}); err != nil || len(found) == 0 {
			return err
		}
		var ids []string
		for _, row := range found {
			ids = append(ids, row.Thread)
		}
		rows, err := r.Threads(store.ThreadQuery{IDs: slices.Compact(ids)})
		seen := map[string]bool{}
		for _, t := range rows {
			seen[t.ID] = who.CanSee(t)
		}
		now := r.Now()
		found = slices.DeleteFunc(found, func(row store.Reservation) bool { return !seen[row.Thread] || !row.Live(now) })
		return err
	})
	return found, err
}

// AppendEntry appends an entry without a run to a thread of the operator, which it creates if there
// is none.
func (l *Ledger) AppendEntry(ctx context.Context, thread, kind string, body json.RawMessage) (seq int64, err error) {
	if thread, err = check.ThreadID(thread); err != nil {
		return 0, err
	}
	o := op{name: "append_entry", rank: rankPlain, size: len(body), threads: []string{thread}}
	return run(ctx, l, o, func(tx *transaction) (int64, error) {
		return tx.rows.thread(thread).AppendEntry(tx.options.DefaultAgent, auth.Operator, kind, body, tx.now()), nil
	})
}

// onProject runs transitions of a project, which may not exist yet. size is that of the request in bytes.
func onProject[T any](ctx context.Context, l *Ledger, name, projectName string, size int,
	f func(*transaction, *project.State) (T, error)) (T, error) {
	thread, err := project.ThreadID(projectName)
	if err != nil {
		var none T
		return none, err
	}
	return onProjectThread(ctx, l, op{name: name, rank: rankPlain, size: size, threads: []string{thread}}, f)
}

func onProjectThread[T any](ctx context.Context, l *Ledger, o op,
	f func(*transaction, *project.State) (T, error)) (T, error) {
	return run(ctx, l, o, func(tx *transaction) (T, error) {
		p, err := tx.project(o.threads[0])
		if err != nil {
			var none T
			return none, err
		}
		return f(tx, p)
	})
}

// onReservation runs a transition of the project that has the reservation.
func (ps Projects) onReservation(ctx context.Context, o op, id string,
	f func(*transaction, *project.State) (store.Reservation, error)) (store.Reservation, error) {
	var thread string
	err := ps.ledger.View(ctx, func(r store.Reader) error {
		if id == "" {
			return nil
		}
		rows, err := r.Reservations(store.ReservationQuery{ID: id})
		for _, row := range rows {
			thread = row.Thread
		}
		return err
	})
	if err != nil {
		return store.Reservation{}, err
	}
	if thread == "" {
		return store.Reservation{}, project.NotFound(id)
	}
	o.rank, o.threads = rankPlain, []string{thread}
	return onProjectThread(ctx, ps.ledger, o, f)
}

// project returns a project whose thread is locked, loading it once per batch.
func (tx *transaction) project(thread string) (*project.State, error) {
	if p := tx.rows.projects[thread]; p != nil {
		return p, nil
	}
	t := tx.rows.thread(thread)
	held := tx.rows.reservations.pop(thread, tx.rows.before[thread].version)
	if held == nil {
		var rows []store.Reservation
		if t.Key != 0 {
			var err error
			if rows, err = tx.rows.stored.Reservations(store.ReservationQuery{Thread: thread}); err != nil {
				return nil, err
			}
		}
		held = project.NewIndex(rows)
	}
	p := project.Load(t, tx.options.DefaultAgent, held)
	tx.rows.projects[thread] = p
	return p, nil
}

// dropProject drops what a project has besides its thread. It returns an error if a reservation is
// active.
func (tx *transaction) dropProject(thread string) error {
	p, err := tx.project(thread)
	if err != nil {
		return err
	}
	if err := p.CheckUnreserved(tx.now()); err != nil {
		return err
	}
	boxes, err := tx.cursors(store.CursorQuery{Channel: thread})
	if err != nil {
		return err
	}
	tx.changes.dropCursors(thread, boxes)
	delete(tx.rows.projects, thread)
	return nil
}
