package sqlite

import (
	"cmp"
	"database/sql/driver"
	"math"
	"slices"
	"time"

	"mailroom"
	"mailroom/store"
)

const (
	threadsWith = "SELECT t.key, t.body FROM thread t WHERE " // … IN list
	workersWith = "SELECT " + workerColumns + " FROM worker WHERE id "

	// Reads only the index, in its order. Behind a thread with a later due time all others of the
	// priority are later too, so Due continues with the next priority.
	dueBehind = `SELECT key, due_at, due_priority FROM thread
		WHERE due_at IS NOT NULL AND due_agent = ? AND due_alone = ? AND due_priority > ?
		ORDER BY due_priority, due_at, key`

	// The same for one owner, and the owners one after the other. Each statement is a seek in an
	// index, whatever the number of due threads.
	dueOfOwner = `SELECT key, due_at, due_priority FROM thread
		WHERE due_agent = ? AND due_alone = ? AND due_owner = ? AND due_priority > ?
		ORDER BY due_priority, due_at, key`
	dueFirstOwner = `SELECT due_owner FROM thread
		WHERE due_agent = ? AND due_alone = ? AND due_owner IS NOT NULL ORDER BY due_owner LIMIT 1`
	dueNextOwner = `SELECT due_owner FROM thread
		WHERE due_agent = ? AND due_alone = ? AND due_owner > ? ORDER BY due_owner LIMIT 1`
)

// tx is the transaction of an Update. SQLite has a single writer, so Load and Due need no locks.
type tx struct {
	reader
	store  *Store
	failed error // of a failed call; the transaction must not commit
	given  given // as the transaction leaves it; read by Write

	tallies map[tallyKey]int // pending changes of counts
}

// Load implements [store.Tx].
func (t *tx) Load(n store.Need) (*store.Loaded, error) {
	var l store.Loaded
	var err error
	if l.Workers, err = t.lockWorkers(n.Workers); err != nil {
		return nil, t.fail("lock workers", err)
	}
	if l.Threads, err = t.lockThreads(n.Threads, n.Known); err != nil {
		return nil, t.fail("lock threads", err)
	}
	if n.Pauses {
		if l.Pauses, err = t.store.memo.readPauses(t.reader); err != nil {
			return nil, t.fail("read pauses", err)
		}
		n.Pauses = false
	}
	return &l, l.Complete(t, n)
}

func (t *tx) lockWorkers(ids []string) ([]*store.Worker, error) {
	found := make(map[string]*store.Worker, len(ids))
	var unknown []string
	for _, id := range ids {
		if found[id] = t.store.memo.worker(id); found[id] == nil {
			unknown = append(unknown, id)
		}
	}
	for args := range inLists(unknown) {
		err := t.session.query(t.ctx, workersWith+in(args), args, func(row []driver.Value) (bool, error) {
			w, err := scanWorker(row)
			if err == nil {
				found[w.ID] = w
				t.store.memo.putWorker(w)
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	rows := make([]*store.Worker, len(ids))
	for i, id := range ids {
		rows[i] = found[id]
	}
	return rows, nil
}

func (t *tx) lockThreads(ids []string, known store.Known) ([]*mailroom.Thread, error) {
	found := make(map[string]*mailroom.Thread, len(ids))
	var unknown []string
	for _, id := range ids {
		if row, ok := t.known(t.store.memo.keys[id], known); ok {
			found[id] = row
		} else {
			unknown = append(unknown, id)
		}
	}
	for args := range inLists(unknown) {
		err := t.session.query(t.ctx, threadsWith+"t.id "+in(args), args, func(row []driver.Value) (bool, error) {
			thread, err := scanThread(row)
			if err == nil {
				found[thread.ID] = thread
				t.note(thread)
			}
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

// Due implements [store.Tx].
func (t *tx) Due(now time.Time, wants []store.Capacity, known store.Known) (_ *store.Loaded, next time.Time, err error) {
	var keys []int64
	for _, want := range wants {
		of := t.dueOf
		if want.Share != nil {
			of = t.dueShared
		}
		ready, later, err := of(now, want)
		if err != nil {
			return nil, time.Time{}, t.fail("find due threads", err)
		}
		for _, d := range ready {
			keys = append(keys, d.key)
		}
		if len(ready) < want.Slots && !later.IsZero() && (next.IsZero() || later.Before(next)) {
			next = later
		}
	}
	var due store.Loaded
	if due.Threads, err = t.withKeys(keys, known); err != nil {
		return nil, time.Time{}, t.fail("read due threads", err)
	}
	n := store.Need{Known: known}
	for _, row := range due.Threads {
		n.Queues = append(n.Queues, row.ID)
	}
	return &due, next, due.Complete(t, n)
}

// dueThread is a row of an index of due threads.
type dueThread struct {
	key      int64
	at       time.Time
	priority int64
}

// dueOf returns the due threads for want, and the earliest later due time among the
// priorities that it read.
func (t *tx) dueOf(now time.Time, want store.Capacity) ([]dueThread, time.Time, error) {
	return t.dueAmong(now, want.Slots, dueBehind, want.Agent, bit(want.LastAttempt))
}

// dueAmong is dueOf for the threads that text selects with args and a priority.
func (t *tx) dueAmong(now time.Time, most int, text string, args ...any) (ready []dueThread, later time.Time, err error) {
	behind := int64(math.MinInt64)
	for len(ready) < most {
		met := false
		err := t.session.query(t.ctx, text, append(args[:len(args):len(args)], behind), func(row []driver.Value) (bool, error) {
			c := columns{row: row}
			d := dueThread{key: c.Int64(), at: c.Time(), priority: c.Int64()}
			if !d.at.After(now) {
				if _, ok := t.store.seen[d.key]; !ok {
					ready = append(ready, d)
				}
				return len(ready) < most, nil
			}
			if later.IsZero() || d.at.Before(later) {
				later = d.at
			}
			behind, met = d.priority, true
			return false, nil
		})
		if err != nil || !met {
			return ready, later, err
		}
	}
	return ready, later, nil
}

// dueShared is dueOf under a Share: it reads the owners one after the other, each up to
// its share, and merges their threads in order.
func (t *tx) dueShared(now time.Time, want store.Capacity) (ready []dueThread, _ time.Time, err error) {
	text, args := dueFirstOwner, []any{want.Agent, bit(want.LastAttempt)}
	for {
		owner, found := "", false
		err := t.session.query(t.ctx, text, args, func(row []driver.Value) (bool, error) {
			c := columns{row: row}
			owner, found = c.Text(), true
			return false, nil
		})
		if err != nil {
			return nil, time.Time{}, err
		}
		if !found {
			break
		}
		text, args = dueNextOwner, []any{want.Agent, bit(want.LastAttempt), owner}
		own, _, err := t.dueAmong(now, min(want.Slots, want.Share.Left(owner)), dueOfOwner, args...)
		if err != nil {
			return nil, time.Time{}, err
		}
		ready = append(ready, own...)
	}
	slices.SortFunc(ready, func(a, b dueThread) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), a.at.Compare(b.at), cmp.Compare(a.key, b.key))
	})
	return ready[:min(len(ready), want.Slots)], time.Time{}, nil
}

// withKeys returns the threads of the keys, in their order.
func (t *tx) withKeys(keys []int64, known store.Known) ([]*mailroom.Thread, error) {
	found := make(map[int64]*mailroom.Thread, len(keys))
	var unknown []int64
	for _, key := range keys {
		if row, ok := t.known(key, known); ok {
			found[key] = row
		} else {
			unknown = append(unknown, key)
		}
	}
	for args := range inLists(unknown) {
		err := t.session.query(t.ctx, threadsWith+"t.key "+in(args), args, func(row []driver.Value) (bool, error) {
			thread, err := scanThread(row)
			if err == nil {
				found[thread.Key] = thread
				t.note(thread)
			}
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

// note records a row that the transaction has read or written.
func (t *tx) note(row *mailroom.Thread) {
	t.store.seen[row.Key] = rowOf(row)
	t.store.memo.putThread(row)
}

// known is [memo.knows] for a row that the transaction locks.
func (t *tx) known(key int64, known store.Known) (*mailroom.Thread, bool) {
	row, ok := t.store.memo.knows(key, known)
	if ok {
		t.store.seen[key] = t.store.memo.threads[key].threadRow
	}
	return row, ok
}

// fail records err as the transaction's result, even if f continues.
func (t *tx) fail(doing string, err error) error {
	refused := t.store.refuse(t.ctx, doing, err)
	if t.failed == nil {
		t.failed = refused
	}
	return refused
}
