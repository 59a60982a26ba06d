package postgres

import (
	"math"
	"slices"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
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
	w.writeWorkers(c.Workers)
	w.writeTickets(c.Tickets)
	w.writeTokens(c)
	w.writeOthers(c)
	w.addSummaries(c)
	w.writeIndex(c.Index)
	if n := &w.counts; len(n.whats) > 0 {
		w.trip.add(nil, addTally, w.node, n.whats, n.owners, n.agents, n.ns)
	}
	if n := &w.counts; len(n.runs) > 0 {
		w.trip.add(nil, addTallyOfRuns, w.node, n.runs, n.runWhats, n.runNs)
	}
	return nil
}

func (w *writing) drop(c *store.Changes) {
	if len(c.DropThreads) > 0 {
		w.trip.add(nil, dropThreads, w.node, c.DropThreads)
	}
	if len(c.DropWorkers) > 0 {
		w.trip.add(nil, dropWorkers, c.DropWorkers)
	}
	if len(c.DropPartials) > 0 {
		w.trip.add(nil, dropPartials, c.DropPartials)
	}
	for _, p := range c.DropEntries {
		w.trip.add(nil, dropPrefix, w.node, p.Thread, p.Seq)
	}
	if len(c.DropDefinitions) > 0 {
		var agents, versions []string
		for _, d := range c.DropDefinitions {
			agents, versions = append(agents, d.Agent), append(versions, d.Version)
		}
		w.trip.add(nil, dropDefinitions, agents, versions)
	}
	if len(c.DropCursors) > 0 {
		var channels, identities []string
		for _, row := range c.DropCursors {
			channels, identities = append(channels, row.Channel), append(identities, row.Identity)
		}
		w.trip.add(nil, dropCursors, channels, identities)
	}
	if len(c.DropPauses) > 0 {
		w.trip.add(nil, dropPauses, c.DropPauses)
	}
	if len(c.DropTokens) > 0 {
		w.trip.add(nil, dropTokens, c.DropTokens)
	}
	if len(c.DropReservations) > 0 {
		w.trip.add(nil, dropReservations, c.DropReservations)
	}
	if len(c.DropSummaries) > 0 {
		var steps, ats []int64
		for _, old := range c.DropSummaries {
			steps, ats = append(steps, old.Step.Microseconds()), append(ats, old.At.UnixMicro())
		}
		w.trip.add(nil, dropSummaries, steps, ats)
	}
}

// setKeys returns a function that sets the keys of inserted rows, in their order.
func setKeys[T any](rows []T, set func(T, int64)) func(*columns) error {
	return func(c *columns) error {
		for i, key := range c.keys() {
			set(rows[i], key)
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

// writeOthers writes the rows of few and small tables.
func (w *writing) writeOthers(c *store.Changes) {
	firsts := slices.Clone(c.Definitions) // an existing version is kept as it is
	slices.Reverse(firsts)
	type version struct{ agent, version string }
	if rows := lastOfEach(firsts, func(d store.Definition) version { return version{d.Agent, d.Version} }); len(rows) > 0 {
		var agents, versions []string
		var bodies [][]byte
		for _, d := range rows {
			agents, versions, bodies = append(agents, d.Agent), append(versions, d.Version), append(bodies, notNil(d.Body))
		}
		w.trip.add(nil, putDefinitions, agents, versions, bodies)
	}
	if rows := lastOfEach(c.Pauses, func(p store.Pause) string { return p.Agent }); len(rows) > 0 {
		var agents, by, reasons []string
		var at, probes []int64
		for _, p := range rows {
			agents, by, reasons = append(agents, p.Agent), append(by, p.By), append(reasons, p.Reason)
			at, probes = append(at, p.At.UnixMicro()), append(probes, micros(p.Probe))
		}
		w.trip.add(nil, putPauses, agents, by, reasons, at, probes)
	}
	type account struct{ channel, identity string }
	if rows := lastOfEach(c.Cursors, func(r store.Cursor) account { return account{r.Channel, r.Identity} }); len(rows) > 0 {
		var channels, identities []string
		var positions [][]byte
		var moved []int64
		for _, r := range rows {
			channels, identities = append(channels, r.Channel), append(identities, r.Identity)
			positions, moved = append(positions, notNil(r.Position)), append(moved, micros(r.MovedAt))
		}
		w.trip.add(nil, putCursors, channels, identities, positions, moved)
	}
	rows := lastOfEach(c.Reservations, func(r store.Reservation) string { return r.ID })
	if len(rows) == 0 {
		return
	}
	var ids, threads []string
	var fences []int64
	var bodies [][]byte
	for i := range rows {
		ids, threads = append(ids, rows[i].ID), append(threads, rows[i].Thread)
		fences, bodies = append(fences, rows[i].Fence), append(bodies, format.AppendReservation(nil, &rows[i]))
	}
	w.trip.add(nil, putReservations, len(rows), ids, threads, fences, bodies)
}

// notNil copies b; nil becomes empty.
func notNil(b []byte) []byte { return append([]byte{}, b...) }
