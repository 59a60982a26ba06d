package sqlite

import (
	"math"
	"time"

	"mailroom"
)

const (
	lockThreads = "SELECT " + threadColumns + ` FROM json_each(?) asked CROSS JOIN thread t ON t.id = asked.value`
	lockWorkers = "SELECT " + workerColumns + ` FROM worker WHERE id IN (SELECT value FROM json_each(?))`

	// Reads the index in its order. Where it meets a thread that is due
	// later, all others of that priority are too: Due goes on behind it.
	dueBehind = "SELECT " + threadColumns + ` FROM thread t
		WHERE due_at IS NOT NULL AND due_agent = ? AND due_alone = ? AND due_priority > ?
		ORDER BY due_priority, due_at, key LIMIT ?`
)

// tx is the transaction of an Update. SQLite has one writer, so Lock and Due
// lock nothing: the rows are the transaction's anyway.
type tx struct {
	reader
	store  *Store
	now    time.Time
	locked bool  // Lock or Due was called
	failed error // of a call that failed: such a transaction must not commit
}

func (t *tx) Now() time.Time { return t.now }

func (t *tx) Lock(workers, threads []string) ([]*mailroom.Worker, []*mailroom.Thread, error) {
	if t.locked {
		return nil, nil, t.fail("lock", mailroom.Errorf(mailroom.Internal,
			"Lock after another call that locks: the order of locks is lost"))
	}
	t.locked = true
	ws := make([]*mailroom.Worker, len(workers))
	if len(workers) > 0 {
		found := make(map[string]*mailroom.Worker, len(workers))
		err := t.session.query(t.ctx, nWorker, lockWorkers, []any{idList(workers)}, func(row []any) (bool, error) {
			w, err := scanWorker(row)
			found[w.ID] = w
			return true, err
		})
		if err != nil {
			return nil, nil, t.fail("lock workers", err)
		}
		for i, id := range workers {
			ws[i] = found[id]
		}
	}
	ts := make([]*mailroom.Thread, len(threads))
	if len(threads) > 0 {
		found := make(map[string]*mailroom.Thread, len(threads))
		err := t.session.query(t.ctx, nThread, lockThreads, []any{idList(threads)}, func(row []any) (bool, error) {
			row1 := scanThread(row)
			found[row1.ID] = row1
			return true, nil
		})
		if err != nil {
			return nil, nil, t.fail("lock threads", err)
		}
		for i, id := range threads {
			if ts[i] = found[id]; ts[i] == nil {
				ts[i] = &mailroom.Thread{ID: id}
			}
		}
	}
	return ws, ts, nil
}

func (t *tx) Due(now time.Time, wants []mailroom.Want) (due []*mailroom.Thread, next time.Time, err error) {
	t.locked = true
	for _, want := range wants {
		ready, later, err := t.dueOf(now, want)
		if err != nil {
			return nil, time.Time{}, t.fail("find due threads", err)
		}
		due = append(due, ready...)
		if len(ready) < want.Slots && !later.IsZero() && (next.IsZero() || later.Before(next)) {
			next = later
		}
	}
	return due, next, nil
}

// dueOf returns the threads of one want that are due, and the first time at
// which one is due later in the priorities that were looked at.
func (t *tx) dueOf(now time.Time, want mailroom.Want) (ready []*mailroom.Thread, later time.Time, err error) {
	behind := int64(math.MinInt64)
	for len(ready) < want.Slots {
		met := false
		args := []any{want.Agent, bit(want.Alone), behind, int64(want.Slots - len(ready))}
		err := t.session.query(t.ctx, nThread, dueBehind, args, func(row []any) (bool, error) {
			thread := scanThread(row)
			if thread.Due.At.After(now) {
				if later.IsZero() || thread.Due.At.Before(later) {
					later = thread.Due.At
				}
				behind, met = int64(thread.Due.Priority), true
				return false, nil
			}
			ready = append(ready, thread)
			return true, nil
		})
		if err != nil || !met {
			return ready, later, err
		}
	}
	return ready, later, nil
}

// fail makes err the transaction's end, also if f goes on.
func (t *tx) fail(doing string, err error) error {
	refused := t.store.refuse(t.ctx, doing, err)
	if t.failed == nil {
		t.failed = refused
	}
	return refused
}
