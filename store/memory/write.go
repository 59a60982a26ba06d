package memory

import (
	"cmp"
	"slices"
	"time"

	"mailroom"
)

// tx works on a state of its own, which Update makes the store's.
type tx struct {
	reader
	now    time.Time
	locked bool  // Lock or Due was called
	failed error // what Write refused: such a transaction must not commit
}

func (t *tx) Now() time.Time { return t.now }

func (t *tx) Lock(workers, threads []string) ([]*mailroom.Worker, []*mailroom.Thread, error) {
	if t.locked {
		return nil, nil, t.fail("Lock after another call that locks: the order of locks is lost")
	}
	t.locked = true
	ws := make([]*mailroom.Worker, len(workers))
	for i, id := range workers {
		if w, ok := t.workers.get(id); ok {
			ws[i] = copyWorker(w)
		}
	}
	ts := make([]*mailroom.Thread, len(threads))
	for i, id := range threads {
		if row, ok := t.threads.get(id); ok {
			ts[i] = copyThread(row)
		} else {
			ts[i] = &mailroom.Thread{ID: id}
		}
	}
	return ws, ts, nil
}

func (t *tx) Due(now time.Time, wants []mailroom.Want) (due []*mailroom.Thread, next time.Time, err error) {
	t.locked = true
	for _, want := range wants {
		var ready []*mailroom.Thread
		var later time.Time
		for _, row := range t.threads.all() {
			switch {
			case row.Due.At.IsZero() || row.Due.Agent != want.Agent || row.Due.Alone != want.Alone:
			case !row.Due.At.After(now):
				ready = append(ready, row)
			case later.IsZero() || row.Due.At.Before(later):
				later = row.Due.At
			}
		}
		slices.SortFunc(ready, func(a, b *mailroom.Thread) int {
			return cmp.Or(cmp.Compare(a.Due.Priority, b.Due.Priority), a.Due.At.Compare(b.Due.At),
				cmp.Compare(a.Key, b.Key))
		})
		if len(ready) >= want.Slots {
			ready = ready[:want.Slots]
		} else if !later.IsZero() && (next.IsZero() || later.Before(next)) {
			next = later
		}
		for _, row := range ready {
			due = append(due, copyThread(row))
		}
	}
	return due, next, nil
}

func (t *tx) Write(c *mailroom.Changes) error {
	if t.failed != nil {
		return t.failed
	}
	for _, id := range c.DropThreads {
		t.dropThread(id)
	}
	for _, id := range c.DropWorkers {
		t.workers.drop(id)
	}
	for _, id := range c.DropPartials {
		t.partials.drop(id)
	}
	among := make(map[string]bool, len(c.Threads))
	for _, row := range c.Threads {
		if err := t.writeThread(row); err != nil {
			return err
		}
		among[row.ID] = true
	}
	for _, run := range c.Runs {
		if err := t.writeRun(run, among); err != nil {
			return err
		}
	}
	for _, entries := range c.Entries {
		if err := t.appendEntries(entries, among); err != nil {
			return err
		}
	}
	for _, key := range c.Keys {
		if err := t.writeKey(key, among); err != nil {
			return err
		}
	}
	for _, piece := range c.Partials {
		if err := t.appendPartial(piece); err != nil {
			return err
		}
	}
	for _, w := range c.Workers {
		t.workers.put(w.ID, copyWorker(w))
	}
	return nil
}

func (t *tx) writeThread(row *mailroom.Thread) error {
	old, ok := t.threads.get(row.ID)
	switch {
	case row.Key == 0 && ok:
		return t.fail("thread %q is there already", row.ID)
	case row.Key == 0:
		t.lastThread++
		row.Key = t.lastThread
	case !ok || old.Key != row.Key:
		return t.fail("thread %q with key %d is not there", row.ID, row.Key)
	}
	t.threads.put(row.ID, copyThread(row))
	return nil
}

func (t *tx) writeRun(run *mailroom.Run, among map[string]bool) error {
	old, ok := t.runs.get(run.ID)
	switch {
	case run.Key == 0 && ok:
		return t.fail("run %q is there already", run.ID)
	case run.Key == 0 && !among[run.Thread]:
		return t.fail("new run %q: its thread %q is not written with it", run.ID, run.Thread)
	case run.Key == 0:
		t.lastRun++
		run.Key = t.lastRun
		ids, _ := t.runsOf.get(run.Thread)
		t.runsOf.put(run.Thread, append(ids, run.ID))
	case !ok || old.Key != run.Key:
		return t.fail("run %q with key %d is not there", run.ID, run.Key)
	}
	t.runs.put(run.ID, copyRun(run))
	return nil
}

// appendEntries appends to the log's slice: only the newest state does, and the
// older ones that share its array end before what is appended.
func (t *tx) appendEntries(entries []mailroom.Entry, among map[string]bool) error {
	if len(entries) == 0 {
		return nil
	}
	thread := entries[0].Thread
	if !among[thread] {
		return t.fail("entries of thread %q, which is not written with them", thread)
	}
	log, _ := t.logs.get(thread)
	if len(log) > 0 && log[len(log)-1].Seq >= entries[0].Seq {
		return t.fail("entry %d of thread %q is there already", entries[0].Seq, thread)
	}
	for i, e := range entries {
		if e.Thread != thread || e.Seq != entries[0].Seq+int64(i) {
			return t.fail("entry %d of thread %q does not follow in the entries of thread %q from %d",
				e.Seq, e.Thread, thread, entries[0].Seq)
		}
		kept, err := copyEntry(e)
		if err != nil {
			return t.fail("entry %d of thread %q: %w", e.Seq, thread, err)
		}
		log = append(log, kept)
	}
	t.logs.put(thread, log)
	return nil
}

func (t *tx) writeKey(key mailroom.SubmitKey, among map[string]bool) error {
	id := keyID{key.Thread, key.Key}
	if !among[key.Thread] {
		return t.fail("key %q of thread %q, which is not written with it", key.Key, key.Thread)
	}
	if _, ok := t.keys.get(id); ok {
		return t.fail("key %q of thread %q is there already", key.Key, key.Thread)
	}
	t.keys.put(id, copyKey(key))
	return nil
}

func (t *tx) appendPartial(piece mailroom.Partial) error {
	if _, ok := t.runs.get(piece.Run); !ok {
		return t.fail("partial of run %q, which is not there", piece.Run)
	}
	pieces, _ := t.partials.get(piece.Run)
	i, found := slices.BinarySearchFunc(pieces, piece.Offset, func(p mailroom.Partial, offset int) int {
		return cmp.Compare(p.Offset, offset)
	})
	pieces = slices.Clone(pieces) // older states hold it
	if found {
		pieces[i] = piece
	} else {
		pieces = slices.Insert(pieces, i, piece)
	}
	t.partials.put(piece.Run, pieces)
	return nil
}

func (t *tx) dropThread(id string) {
	ids, _ := t.runsOf.get(id)
	for _, run := range ids {
		t.runs.drop(run)
		t.partials.drop(run)
	}
	for k := range t.keys.all() {
		if k.thread == id {
			t.keys.drop(k)
		}
	}
	t.runsOf.drop(id)
	t.logs.drop(id)
	t.threads.drop(id)
}

func (t *tx) fail(format string, args ...any) error {
	t.failed = mailroom.Errorf(mailroom.Internal, format, args...)
	return t.failed
}
