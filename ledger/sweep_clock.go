package ledger

import (
	"context"
	"slices"
	"time"

	"mailroom/store"
	"mailroom/thread"
)

// fromFuture reports whether the worker's row was written by a clock ahead of now: a live lease
// ends at most one lease time after now, and the lease of a dead worker in the past.
func (o *Options) fromFuture(w *store.Worker, now time.Time) bool {
	latest := now.Add(thread.ClockSlack)
	if !w.Dead {
		latest = latest.Add(o.Lease)
	}
	return w.LeaseUntil.After(latest)
}

// checkClock makes the next sweep handle a clock step that this worker's row shows, before the row
// is overwritten.
func (tx *transaction) checkClock(w *store.Worker) {
	if tx.options.fromFuture(w, tx.now()) {
		tx.clockStepped.Store(true)
	}
}

// replanAfterClockStep reschedules threads after the clock stepped back, see
// [thread.State.ReplanAfterClockStep], and shortens leases that end too late. Only then it
// reads the rows of all threads, a page at a time.
func (ws Workers) replanAfterClockStep(ctx context.Context, workers []*store.Worker, now time.Time) error {
	late := slices.DeleteFunc(slices.Clone(workers),
		func(w *store.Worker) bool { return !ws.ledger.options.fromFuture(w, now) })
	if !ws.ledger.committer().clockStepped.Swap(false) && len(late) == 0 {
		return nil
	}
	ws.ledger.options.Log.WarnContext(ctx, "clock stepped back; rescheduling retries and leases")
	if err := ws.ledger.replanThreads(ctx, now); err != nil {
		ws.ledger.committer().clockStepped.Store(true)
		return err
	}
	for _, w := range late {
		o := op{name: "check_clock", rank: rankRenew, workers: []string{w.ID}}
		err := perform(ctx, ws.ledger, o, func(tx *transaction) error {
			if row := tx.rows.workers[w.ID]; row != nil && ws.ledger.options.fromFuture(row, tx.now()) {
				row.LeaseUntil = tx.now()
				if !row.Dead {
					row.LeaseUntil = tx.now().Add(ws.ledger.options.Lease)
				}
				tx.saveWorker(row)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replanThreads loads the threads that were written by a later clock, because loading reschedules
// them.
func (l *Ledger) replanThreads(ctx context.Context, now time.Time) error {
	for from, more := int64(0), true; more; {
		var ids []string
		err := l.View(ctx, func(r store.Reader) error {
			rows, err := r.Threads(store.ThreadQuery{From: from, Oldest: true, Limit: expireBatch})
			for _, t := range rows {
				from = t.Key
				if !t.Due.At.IsZero() && t.UpdatedAt.After(now.Add(thread.ClockSlack)) {
					ids = append(ids, t.ID)
				}
			}
			more = len(rows) == expireBatch
			return err
		})
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			continue
		}
		o := op{name: "replan", rank: rankPlain, threads: ids, queues: true}
		if err := perform(ctx, l, o, func(*transaction) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}
