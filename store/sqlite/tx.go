package sqlite

import (
	"mailroom"
	"mailroom/store"
)

// tx is the transaction of an Update. SQLite has a single writer, so Load and Due need no locks.
type tx struct {
	reader
	store  *Store
	failed error // error of a failed call; the transaction must not commit
	given  given // as the transaction leaves it; read by Write
	before int64 // revision of the store when the first Write began; 0 without one

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
		err := t.session.query(t.ctx, threadsWith+"t.id "+in(args), args, func(c *columns) (bool, error) {
			thread, err := scanThread(c)
			if err == nil {
				found[thread.ID] = thread
				t.note(thread, logEnd{c.Int64(), c.Int64()})
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

// note records a row that the transaction has read or written, with the end of its log.
func (t *tx) note(row *mailroom.Thread, end logEnd) {
	t.store.noteRow(row)
	t.store.memo.ends[row.Key] = end
}

// noteRow is note without the end of the log.
func (s *Store) noteRow(row *mailroom.Thread) {
	s.seen[row.Key] = rowOf(row)
	s.memo.putThread(row)
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
