package sqlite

import (
	"slices"

	"mailroom"
	"mailroom/store"
)

// memo is what the writer's connection knows of small rows, so that a transaction need not read them
// again: the keys and the revision, workers, pauses, and which revision each recent thread has. It is
// valid while no other connection has written to the file, and is forgotten with a rolled back
// transaction.
type memo struct {
	version uint32 // the data version after the last commit
	given   given  // zero: unknown
	workers map[string]store.Worker
	threads map[int64]knownThread // threads by key
	keys    map[string]int64      // keys of threads, by id
	ends    map[int64]logEnd      // by the key of a thread
	pauses  []store.Pause
	paused  bool // pauses has them
}

// knownThread is a thread's row without its body.
type knownThread struct {
	id       string
	revision int64
	threadRow
}

// Bounds of the rows of a memo: more workers and busy threads than one server has, in a few megabytes. A
// full memo is cleared rather than freed of the rows that were not used for long: their order would cost
// something in each transaction, and a row that is missing costs one read.
const (
	maxKnownWorkers = 4096
	maxKnownThreads = 8192
)

// recall prepares the memo for a transaction that has begun. If another connection has committed since,
// the memo is empty: the data version says that rows have changed, but not which.
func (s *Store) recall() {
	version, ok := s.writer.conn.dataVersion()
	if !ok || version != s.memo.version || s.memo.threads == nil {
		s.memo = memo{workers: map[string]store.Worker{}, threads: map[int64]knownThread{}, keys: map[string]int64{},
			ends: map[int64]logEnd{}}
	}
	if len(s.memo.workers) > maxKnownWorkers {
		clear(s.memo.workers)
	}
	if len(s.memo.threads) > maxKnownThreads {
		clear(s.memo.threads)
		clear(s.memo.keys)
		clear(s.memo.ends)
	}
}

// memorize makes the memo valid for the next transaction, after a commit.
func (s *Store) memorize() {
	version, ok := s.writer.conn.dataVersion()
	if !ok {
		s.memo = memo{}
	}
	s.memo.version = version
}

// readPauses returns the pauses of agents.
func (m *memo) readPauses(r reader) (_ []store.Pause, err error) {
	if !m.paused {
		m.pauses, err = readPauses(r)
		m.paused = err == nil
	}
	return slices.Clone(m.pauses), err
}

// knows returns the row of a thread without its body, if the caller has the body of the present version in memory.
func (m *memo) knows(key int64, known store.Known) (*mailroom.Thread, bool) {
	row, ok := m.threads[key]
	if !ok || known == nil || known(row.id) != (store.Version{Key: key, Revision: row.revision}) {
		return nil, false
	}
	return &mailroom.Thread{ID: row.id, Key: key, Revision: row.revision}, true
}

func (m *memo) putThread(t *mailroom.Thread) {
	m.threads[t.Key] = knownThread{id: t.ID, revision: t.Revision, threadRow: rowOf(t)}
	m.keys[t.ID] = t.Key
}

func (m *memo) dropThread(id string) {
	delete(m.threads, m.keys[id])
	delete(m.ends, m.keys[id])
	delete(m.keys, id)
}

func (m *memo) worker(id string) *store.Worker {
	w, ok := m.workers[id]
	if !ok {
		return nil
	}
	return copyOf(&w)
}

func (m *memo) putWorker(w *store.Worker) { m.workers[w.ID] = *copyOf(w) }

// copyOf returns a copy of a row that shares nothing with it.
func copyOf(w *store.Worker) *store.Worker {
	c := *w
	c.Agents, c.Duties = slices.Clone(w.Agents), slices.Clone(w.Duties)
	return &c
}
