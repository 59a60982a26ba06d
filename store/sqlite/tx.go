package sqlite

import (
	"database/sql/driver"
	"math"
	"time"

	"mailroom"
)

const (
	threadsWith = "SELECT t.key, t.body FROM thread t WHERE " // … IN list
	workersWith = "SELECT " + workerColumns + " FROM worker WHERE id "

	// Reads the index alone, in its order. Where it meets a thread that is due
	// later, all others of that priority are too: Due goes on behind it.
	dueBehind = `SELECT key, due_at, due_priority FROM thread
		WHERE due_at IS NOT NULL AND due_agent = ? AND due_alone = ? AND due_priority > ?
		ORDER BY due_priority, due_at, key`
)

// tx is the transaction of an Update. SQLite has one writer, so Lock and Due
// lock nothing: the rows are the transaction's anyway.
type tx struct {
	reader
	store  *Store
	now    time.Time
	failed error // of a call that failed: such a transaction must not commit
	given  given // read at the first new row
}

func (t *tx) Now() time.Time { return t.now }

func (t *tx) Lock(workers, threads []string) ([]*mailroom.Worker, []*mailroom.Thread, error) {
	ws, err := t.lockWorkers(workers)
	if err != nil {
		return nil, nil, t.fail("lock workers", err)
	}
	ts, err := t.lockThreads(threads)
	if err != nil {
		return nil, nil, t.fail("lock threads", err)
	}
	return ws, ts, nil
}

func (t *tx) lockWorkers(ids []string) ([]*mailroom.Worker, error) {
	found := make(map[string]*mailroom.Worker, len(ids))
	for args := range inLists(ids) {
		err := t.session.query(t.ctx, workersWith+in(args), args, func(row []driver.Value) (bool, error) {
			w, err := scanWorker(row)
			found[w.ID] = w
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	rows := make([]*mailroom.Worker, len(ids))
	for i, id := range ids {
		rows[i] = found[id]
	}
	return rows, nil
}

func (t *tx) lockThreads(ids []string) ([]*mailroom.Thread, error) {
	found := make(map[string]*mailroom.Thread, len(ids))
	for args := range inLists(ids) {
		err := t.session.query(t.ctx, threadsWith+"t.id "+in(args), args, func(row []driver.Value) (bool, error) {
			thread, err := scanThread(row)
			found[thread.ID] = thread
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	rows := make([]*mailroom.Thread, len(ids))
	for i, id := range ids {
		if rows[i] = found[id]; rows[i] == nil {
			rows[i] = &mailroom.Thread{ID: id}
		}
	}
	return rows, nil
}

func (t *tx) Due(now time.Time, wants []mailroom.Want) (due []*mailroom.Thread, next time.Time, err error) {
	var keys []int64
	for _, want := range wants {
		ready, later, err := t.dueOf(now, want)
		if err != nil {
			return nil, time.Time{}, t.fail("find due threads", err)
		}
		keys = append(keys, ready...)
		if len(ready) < want.Slots && !later.IsZero() && (next.IsZero() || later.Before(next)) {
			next = later
		}
	}
	if due, err = t.withKeys(keys); err != nil {
		return nil, time.Time{}, t.fail("read due threads", err)
	}
	return due, next, nil
}

// dueOf returns the keys of the threads of one want that are due, and the first
// time at which one is due later in the priorities that were looked at.
func (t *tx) dueOf(now time.Time, want mailroom.Want) (ready []int64, later time.Time, err error) {
	behind := int64(math.MinInt64)
	for len(ready) < want.Slots {
		met := false
		args := []any{want.Agent, bit(want.Alone), behind}
		err := t.session.query(t.ctx, dueBehind, args, func(row []driver.Value) (bool, error) {
			c := columns{row: row}
			key, at, priority := c.int64(), c.time(), c.int64()
			if !at.After(now) {
				ready = append(ready, key)
				return len(ready) < want.Slots, nil
			}
			if later.IsZero() || at.Before(later) {
				later = at
			}
			behind, met = priority, true
			return false, nil
		})
		if err != nil || !met {
			return ready, later, err
		}
	}
	return ready, later, nil
}

// withKeys returns the threads of the keys, in their order.
func (t *tx) withKeys(keys []int64) ([]*mailroom.Thread, error) {
	found := make(map[int64]*mailroom.Thread, len(keys))
	for args := range inLists(keys) {
		err := t.session.query(t.ctx, threadsWith+"t.key "+in(args), args, func(row []driver.Value) (bool, error) {
			thread, err := scanThread(row)
			found[thread.Key] = thread
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	threads := make([]*mailroom.Thread, len(keys))
	for i, key := range keys {
		threads[i] = found[key]
	}
	return threads, nil
}

// fail makes err the transaction's end, also if f goes on.
func (t *tx) fail(doing string, err error) error {
	refused := t.store.refuse(t.ctx, doing, err)
	if t.failed == nil {
		t.failed = refused
	}
	return refused
}
