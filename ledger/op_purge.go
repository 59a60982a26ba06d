package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/thread"
)

// purgeStep is the number of entries that one transaction of a purge drops.
const purgeStep = 500

// purgeConcurrency is how many threads are purged at a time: while one waits for its turn behind all
// other operations, the next reads what it will drop.
const purgeConcurrency = 2

// PurgeEach purges several threads. A thread that fails does not keep the others: the error has the first
// failures. It ends early only if ctx does, or if the store is unavailable.
func (l *Ledger) PurgeEach(ctx context.Context, threads []string, retention time.Duration) error {
	group, life := errgroup.WithContext(ctx)
	group.SetLimit(purgeConcurrency)
	var mu sync.Mutex
	var failed []error // guarded by mu
	for _, id := range threads {
		group.Go(func() (err error) {
			defer recovery.Error(l.options.Log, "purge", &err)
			if life.Err() != nil {
				return nil
			}
			err = recovery.Call(l.options.Log, "purge", func() error { return l.Purge(life, id, retention) })
			if err == nil || life.Err() != nil {
				return err
			}
			err = fmt.Errorf("purge thread %s: %w", id, err)
			if mailroom.CodeOf(err) == mailroom.CodeUnavailable { // the store's failure, not the thread's
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if len(failed) < maxPurgeErrors {
				failed = append(failed, err)
			}
			return nil
		})
	}
	ended := group.Wait()
	return errors.Join(append(failed, ended, ctx.Err())...)
}

// maxPurgeErrors bounds the failures that an error of PurgeEach names.
const maxPurgeErrors = 5

// Purge drops the entries of a thread's log that are older than the retention: the prefix up to the
// first entry that is younger, or that belongs to an open or younger run. It uses small
// transactions of the lowest rank. What it reads depends on what it drops, not on the length of the log.
func (l *Ledger) Purge(ctx context.Context, thread string, retention time.Duration) error {
	for {
		old, err := l.purgeable(ctx, thread, retention)
		if err != nil || old.upto == 0 {
			return err
		}
		for more := true; more; {
			if more, err = l.purgeSome(ctx, thread, &old); err != nil {
				return err
			}
		}
		if old.all {
			return nil
		}
	}
}

// purgeSome drops a part of the prefix in one transaction, and reports whether there is more of it.
func (l *Ledger) purgeSome(ctx context.Context, thread string, old *prefix) (more bool, err error) {
	o := op{name: "purge", rank: rankPurge, threads: []string{thread}}
	return run(ctx, l, o, func(tx *transaction) (bool, error) {
		t := tx.rows.thread(thread)
		next := min(old.upto, t.FirstSeq+purgeStep)
		if t.LastSeq != old.last { // an old run may have been retried
			kept, _, err := firstKept(tx.rows.stored, thread, next, old.before)
			if err != nil {
				return false, err
			}
			next = min(next, kept)
		}
		if next <= t.FirstSeq {
			return false, nil
		}
		bytes, told, err := tx.entriesBelow(t, next)
		if err != nil {
			return false, err
		}
		if err := tx.uncountUnread(t, told); err != nil {
			return false, err
		}
		t.Purge(next, bytes)
		tx.changes.dropEntries(thread, next)
		return next < old.upto, nil
	})
}

// entriesBelow returns the size of the entries below seq, and the notifications among them.
func (tx *transaction) entriesBelow(t *thread.State, seq int64) (bytes int64, told []Received, err error) {
	for after := t.FirstSeq - 1; after < seq-1; {
		page, err := tx.rows.stored.Entries(store.EntryQuery{Thread: t.ID, After: after, Before: seq, Limit: purgeStep,
			Bytes: maxBytes})
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

// prefix is the part of a log that a purge may drop.
type prefix struct {
	before time.Time // time before which entries and runs are purged
	upto   int64     // first seq to keep; 0: keep everything
	all    bool      // no entry from upto on may be dropped now
	last   int64     // end of the log when it was read
}

// purgeable finds the part of the log that a purge may drop. It first looks at the oldest entry and the oldest run,
// because nearly all threads must keep these two.
func (l *Ledger) purgeable(ctx context.Context, thread string, retention time.Duration) (old prefix, err error) {
	err = l.View(ctx, func(r store.Reader) error {
		before := r.Now().Add(-retention)
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
		if err != nil || len(rows) == 0 || rows[0].FirstSeq > rows[0].LastSeq {
			return err
		}
		t := rows[0]
		oldest, err := entryAt(r, thread, t.FirstSeq)
		if err != nil || oldest.At.After(before) {
			return err
		}
		runs, err := r.Runs(store.RunQuery{Thread: thread, Oldest: true, Limit: 1})
		if err != nil || len(runs) > 0 && runs[0].FirstSeq <= t.FirstSeq && isKept(runs[0], before) {
			return err
		}
		upto, err := firstAfter(r, t, t.LastSeq+1, before)
		if err != nil {
			return err
		}
		kept, all, err := firstKept(r, thread, upto, before)
		if err == nil && kept > t.FirstSeq {
			old = prefix{before: before, upto: kept, all: all, last: t.LastSeq}
		}
		return err
	})
	return old, err
}

// isKept reports whether a run keeps its entries: it is open, or ended after before.
func isKept(run *mailroom.Run, before time.Time) bool {
	return !run.Status.Finished() || run.FinishedAt.After(before)
}

// firstKept returns the first seq of the oldest run that is kept, at most upto. It reads a bounded number of runs.
// If there may be more below upto, and it finds no kept run in the first half of those that it read, it returns the
// first seq of the run in the middle, and all is false. The middle is safe although runs of one commit are not in the
// order of their first entries: the other half has room for all runs of a commit.
func firstKept(r store.Reader, thread string, upto int64, before time.Time) (first int64, all bool, err error) {
	runs, err := r.Runs(store.RunQuery{Thread: thread, Oldest: true, Limit: 2 * purgeStep})
	if err != nil {
		return 0, false, err
	}
	first, all = upto, true
	if len(runs) == 2*purgeStep && runs[purgeStep].FirstSeq < upto {
		first, all = runs[purgeStep].FirstSeq, false
	}
	for _, run := range runs {
		if run.FirstSeq < first && isKept(run, before) {
			first, all = run.FirstSeq, true
		}
	}
	return first, all, nil
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
