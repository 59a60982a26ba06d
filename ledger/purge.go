package ledger

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/internal/thread"
	"mailroom/store"
)

// purgeStep is the number of entries that one transaction of a purge drops.
const purgeStep = 500

// purgeConcurrency is how many threads are purged at a time: while one waits for its turn behind all
// other operations, the next reads what it will drop.
const purgeConcurrency = 2

// PurgeEach purges several threads.
func (l *Ledger) PurgeEach(ctx context.Context, threads []string, retention time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(purgeConcurrency)
	for _, id := range threads {
		group.Go(func() (err error) {
			defer recovery.Error(l.options.Log, "purge", &err)
			if err := l.Purge(ctx, id, retention); err != nil {
				return fmt.Errorf("purge thread %s: %w", id, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Purge drops the entries of a thread's log that are older than the retention: the prefix up to the
// first entry that is younger, or that belongs to an open or younger run. It uses small
// transactions of the lowest rank.
func (l *Ledger) Purge(ctx context.Context, thread string, retention time.Duration) error {
	for {
		upto, last, err := l.purgeable(ctx, thread, retention)
		if err != nil || upto == 0 {
			return err
		}
		o := op{name: "purge", rank: rankPurge, threads: []string{thread}}
		more, err := run(ctx, l, o, func(b *batch) (bool, error) {
			t := b.rows.thread(thread)
			if t.LastSeq != last { // an old run may have been retried
				if err := b.keepOpen(thread, &upto); err != nil {
					return false, err
				}
			}
			next := min(upto, t.FirstSeq+purgeStep)
			if next <= t.FirstSeq {
				return false, nil
			}
			bytes, told, err := b.entriesBelow(t, next)
			if err != nil {
				return false, err
			}
			if err := b.uncountUnread(t, told); err != nil {
				return false, err
			}
			t.Purge(next, bytes)
			b.changes.DropEntries = append(b.changes.DropEntries, store.Prefix{Thread: thread, Seq: next})
			return next < upto, nil
		})
		if err != nil || !more {
			return err
		}
	}
}

// entriesBelow returns the size of the entries below seq, and the notifications among them.
func (b *batch) entriesBelow(t *thread.State, seq int64) (bytes int64, told []Received, err error) {
	for after := t.FirstSeq - 1; after < seq-1; {
		page, err := b.rows.tx.Entries(store.EntryQuery{Thread: t.ID, After: after, Before: seq, Limit: purgeStep, Bytes: maxBytes})
		if err != nil || len(page) == 0 {
			return bytes, told, err
		}
		for i := range page {
			one, ok, err := received(&page[i])
			if err != nil {
				return bytes, told, err
			}
			if ok {
				told = append(told, one)
			}
			bytes, after = bytes+int64(len(page[i].Raw)), one.Seq
		}
	}
	return bytes, told, nil
}

// keepOpen lowers upto to the first entry of the oldest open run. A purge is alone in its batch, so
// the stored rows are current.
func (b *batch) keepOpen(thread string, upto *int64) error {
	open, err := b.rows.tx.Runs(store.RunQuery{
		Thread: thread, Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting},
	})
	for _, r := range open {
		*upto = min(*upto, r.FirstSeq)
	}
	return err
}

// purgeable returns the first seq to keep, 0 to keep everything. last is the end of the log in its
// snapshot.
func (l *Ledger) purgeable(ctx context.Context, thread string, retention time.Duration) (upto, last int64, err error) {
	err = l.View(ctx, func(r store.Reader) error {
		before := r.Now().Add(-retention)
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
		if err != nil || len(rows) == 0 {
			return err
		}
		last = rows[0].LastSeq
		if upto, err = firstKept(r, rows[0], before); err == nil {
			upto, err = firstAfter(r, rows[0], upto, before)
		}
		if upto <= rows[0].FirstSeq {
			upto = 0
		}
		return err
	})
	return upto, last, err
}

// firstKept returns the first entry of the oldest run that is open or ended after before.
func firstKept(r store.Reader, t *mailroom.Thread, before time.Time) (int64, error) {
	keep := t.LastSeq + 1
	for from := int64(0); ; {
		runs, err := r.Runs(store.RunQuery{Thread: t.ID, From: from, Limit: purgeStep})
		if err != nil {
			return 0, err
		}
		for _, run := range runs {
			if !run.Status.Finished() || run.FinishedAt.After(before) {
				keep = min(keep, run.FirstSeq)
			}
			from = run.Key
		}
		if len(runs) < purgeStep {
			return keep, nil
		}
	}
}

// firstAfter returns the first seq below upto whose entry was written after before, or upto. It
// searches by bisection, because entries are ordered by time.
func firstAfter(r store.Reader, t *mailroom.Thread, upto int64, before time.Time) (int64, error) {
	for from := t.FirstSeq; from < upto; {
		middle := from + (upto-from)/2
		e, err := entryAt(r, t.ID, middle)
		if err != nil {
			return 0, err
		}
		if e.At.After(before) {
			upto = middle
		} else {
			from = middle + 1
		}
	}
	return upto, nil
}
