package ledger

import (
	"context"
	"slices"
	"time"

	"mailroom"
)

// fromFuture reports whether the row of a worker was written by a clock that was later
// than now: a lease ends no later than its length from the last renewal, and that of a
// dead worker has ended.
func (l *Ledger) fromFuture(w *mailroom.Worker, now time.Time) bool {
	latest := now.Add(mailroom.ClockSlack)
	if !w.Dead {
		latest = latest.Add(l.options.Lease)
	}
	return w.LeaseUntil.After(latest)
}

// checkClock has the next sweep follow a clock that went back, before the row of the
// worker no longer shows it.
func (b *batch) checkClock(w *mailroom.Worker) {
	if b.l.fromFuture(w, b.now) {
		b.l.clockStepped.Store(true)
	}
}

// replanAfterClockStep plans again, once a clock went back, what is due later than it was meant
// to be, see [mailroom.ThreadState.ReplanAfterClockStep], and lets leases end no later than their
// length from now. It looks at the rows of all threads, a page at a time, and only then.
func (l *Ledger) replanAfterClockStep(ctx context.Context, workers []*mailroom.Worker) error {
	now := time.Now()
	late := slices.DeleteFunc(slices.Clone(workers), func(w *mailroom.Worker) bool { return !l.fromFuture(w, now) })
	if !l.clockStepped.Swap(false) && len(late) == 0 {
		return nil
	}
	l.options.Log.WarnContext(ctx, "clock went back: retries and leases are planned again")
	if err := l.replanThreads(ctx, now); err != nil {
		l.clockStepped.Store(true)
		return err
	}
	for _, w := range late {
		o := op{name: "clock", rank: rankRenew, workers: []string{w.ID}}
		_, err := run(ctx, l, o, func(b *batch) (struct{}, error) {
			if row := b.workers[w.ID]; row != nil && l.fromFuture(row, b.now) {
				row.LeaseUntil = b.now
				if !row.Dead {
					row.LeaseUntil = b.now.Add(l.options.Lease)
				}
				b.saveWorker(row)
			}
			return struct{}{}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replanThreads loads the threads that were written later than now, which is all that
// it takes.
func (l *Ledger) replanThreads(ctx context.Context, now time.Time) error {
	for from, more := int64(0), true; more; {
		var ids []string
		err := l.View(ctx, func(r mailroom.Reader) error {
			rows, err := r.Threads(mailroom.ThreadQuery{From: from, Oldest: true, Limit: expireBatch})
			for _, t := range rows {
				from = t.Key
				if !t.Due.At.IsZero() && t.UpdatedAt.After(now.Add(mailroom.ClockSlack)) {
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
		o := op{name: "clock", rank: rankPlain, threads: ids}
		if _, err := run(ctx, l, o, func(*batch) (struct{}, error) { return struct{}{}, nil }); err != nil {
			return err
		}
	}
	return nil
}
