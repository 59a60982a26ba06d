package postgres

import (
	"math"

	"mailroom"
	"mailroom/store"
)

// Each statement writes all rows of a kind from arrays, one per column. A number of rows that must
// match is checked by the statement itself, so that an error keeps the pipeline from reaching
// COMMIT: it divides by zero.
const (
	checkRows = " SELECT 1 / (count(*) = $1)::int FROM w"
	checkKeys = " SELECT array_agg(key ORDER BY key), 1 / (count(*) = $1)::int FROM w"

	// A row of a thread that the same Changes insert names it by id; its key is 0.
	threadOf = "CASE WHEN u.thread <> 0 THEN u.thread ELSE (SELECT t.key FROM thread t WHERE t.id = u.thread_id) END"
)

// Write implements [store.Tx]. It encodes the rows and leaves the statements for the next trip. The
// keys of new rows are set by that trip.
func (t *tx) Write(c *store.Changes) error {
	if len(t.pending) > 0 { // whose keys the rows of c may need
		if err := t.send("write", nil); err != nil {
			return err
		}
	}
	t.ahead = nil
	for _, row := range c.Threads {
		t.given[row.ID] = true
	}
	w := writing{node: t.store.options.Node}
	if err := w.write(c); err != nil {
		return t.fail("write", err)
	}
	w.writeMeters(c, t.meters)
	t.pending = w.trip
	if endsTokens(c) {
		t.ending = true
		t.pending.add(nil, endTokens)
	}
	return nil
}

// writing collects the statements of one Changes.
type writing struct {
	trip    trip
	node    string
	threads map[string]*writtenThread
	counts  tally
}

// writtenThread is a thread of the Changes.
type writtenThread struct {
	row *mailroom.Thread
	// sorted is a seq: a new run that begins there or later begins after all other runs of the
	// thread.
	sorted int64
}

func (w *writing) write(c *store.Changes) error {
	w.drop(c)
	w.threads = make(map[string]*writtenThread, len(c.Threads))
	for _, row := range c.Threads {
		w.threads[row.ID] = &writtenThread{row: row, sorted: math.MaxInt64}
	}
	for _, list := range c.Entries {
		if len(list) > 0 {
			if t := w.threads[list[0].Thread]; t != nil {
				t.sorted = list[0].Seq
			}
		}
	}
	w.writeThreads(c.Threads)
	w.writeNext(c.Threads)
	for _, f := range []func(*store.Changes) error{w.writeRuns, w.writeEntries, w.writeKeys} {
		if err := f(c); err != nil {
			return err
		}
	}
	w.writePartials(c.Partials)
	w.writeBlobs(c.Blobs)
	w.writePieces(c.BlobPieces)
	w.writeWorkers(c.Workers)
	w.writeTickets(c.Tickets)
	w.writeTokens(c)
	w.writeDefinitions(c.Definitions)
	w.writePauses(c.Pauses)
	w.writeCursors(c.Cursors)
	w.writeReservations(c.Reservations)
	w.addSummaries(c.Summaries)
	w.writeIndex(c.Index)
	w.writeTally()
	return nil
}

func (w *writing) drop(c *store.Changes) {
	if len(c.DropThreads) > 0 {
		w.trip.add(nil, dropThreads, w.node, c.DropThreads)
	}
	w.dropNamed(dropWorkers, c.DropWorkers)
	w.dropNamed(dropPartials, c.DropPartials)
	for _, p := range c.DropEntries {
		w.trip.add(nil, dropPrefix, w.node, p.Thread, p.Seq)
	}
	w.dropDefinitions(c.DropDefinitions)
	w.dropCursors(c.DropCursors)
	w.dropNamed(dropPauses, c.DropPauses)
	w.dropNamed(dropTokens, c.DropTokens)
	w.dropNamed(dropReservations, c.DropReservations)
	w.dropNamed(dropMeters, c.DropMeters)
	w.dropBlobs(c.DropBlobs, c.DropUploads)
	w.dropSummaries(c.DropSummaries)
}

// dropNamed drops the rows with these ids or names.
func (w *writing) dropNamed(text string, names []string) {
	if len(names) > 0 {
		w.trip.add(nil, text, names)
	}
}

// setKeys returns a function that sets the keys of inserted rows, in their order.
func setKeys[T any](rows []T, of func(T) *int64) func(*columns) error {
	return func(c *columns) error {
		for i, key := range c.keys() {
			*of(rows[i]) = key
		}
		return nil
	}
}

// owner returns a thread of the Changes, as the key and the id by which rows name it.
func (w *writing) owner(id string, what string) (*writtenThread, error) {
	if t := w.threads[id]; t != nil {
		return t, nil
	}
	return nil, mailroom.Errorf(mailroom.CodeInternal, "%s: the thread %q is not in the changes", what, id)
}

// lastOfEach returns the last row of each key, in the order of their first rows: one statement
// cannot write a row twice.
func lastOfEach[T any, K comparable](rows []T, key func(T) K) []T {
	at := make(map[K]int, len(rows))
	var last []T
	for _, row := range rows {
		k := key(row)
		if i, ok := at[k]; ok {
			last[i] = row
			continue
		}
		at[k] = len(last)
		last = append(last, row)
	}
	return last
}

// notNil copies b; nil becomes empty.
func notNil(b []byte) []byte { return append([]byte{}, b...) }
