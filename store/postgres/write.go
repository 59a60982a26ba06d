package postgres

import (
	"math"
	"slices"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

// The piles of runs, see the table; pileNone is NULL.
const (
	pileNone      = -1
	pileQueue     = 0
	pileScheduled = 1
	pileFailed    = 2
	pileWaiting   = 3
	pileRunning   = -2 // of no row: the threads with a worker name these runs
	pileCancelled = 5
	pileRetrying  = 6
)

// pileOf returns the pile of a run, by which an index finds it.
func pileOf(r *mailroom.Run) int64 {
	switch r.Status {
	case mailroom.StatusQueued:
		switch {
		case !r.NeverStarted():
			return pileRetrying
		case r.Scheduled:
			return pileScheduled
		}
		return pileQueue
	case mailroom.StatusWaiting:
		return pileWaiting
	case mailroom.StatusFailed:
		return pileFailed
	case mailroom.StatusCancelled:
		return pileCancelled
	}
	return pileNone
}

// pilesOf returns the piles of runs with a status, none if it has no pile.
func pilesOf(status mailroom.Status) []int64 {
	switch status {
	case mailroom.StatusQueued:
		return []int64{pileQueue, pileScheduled, pileRetrying}
	case mailroom.StatusRunning:
		return []int64{pileRunning}
	case mailroom.StatusWaiting, mailroom.StatusFailed, mailroom.StatusCancelled:
		return []int64{pileOf(&mailroom.Run{Status: status})}
	}
	return nil
}

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

// endsTokens reports whether a transaction revokes or drops a token. A token that ends by its time was read with it.
func endsTokens(c *store.Changes) bool {
	return len(c.DropTokens) > 0 || slices.ContainsFunc(c.Tokens, func(row *auth.Token) bool { return !row.RevokedAt.IsZero() })
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

// tally collects changes of counts.
type tally struct {
	whats, owners, agents []string
	ns                    []int64
	runs, runNs           []int64 // of threads whose owners are not known
	runWhats              []string
}

func (n *tally) add(what, owner, agent string, by int64) {
	n.whats, n.owners = append(n.whats, what), append(n.owners, owner)
	n.agents, n.ns = append(n.agents, agent), append(n.ns, by)
}

func (n *tally) addRun(run int64, what string, by int64) {
	n.runs, n.runWhats, n.runNs = append(n.runs, run), append(n.runWhats, what), append(n.runNs, by)
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

// threadColumns has the values of threads, one array per column.
type threadColumns struct {
	ids, owners, agents, workers, dueAgents, currents, deliver []string
	keys, dueAts, duePriorities, revisions                     []int64
	alone, deleted                                             []bool
	bodies                                                     [][]byte
}

func (a *threadColumns) add(t *mailroom.Thread) {
	a.ids, a.owners, a.keys = append(a.ids, t.ID), append(a.owners, t.Owner), append(a.keys, t.Key)
	a.agents, a.workers, a.currents = append(a.agents, t.Agent), append(a.workers, t.Worker), append(a.currents, t.Current)
	a.dueAts, a.dueAgents = append(a.dueAts, micros(t.Due.At)), append(a.dueAgents, t.Due.Agent)
	a.duePriorities, a.alone = append(a.duePriorities, int64(t.Due.Priority)), append(a.alone, t.Due.LastAttempt)
	a.deliver, a.deleted = append(a.deliver, t.DeliverTo), append(a.deleted, !t.DeletedAt.IsZero())
	a.revisions, a.bodies = append(a.revisions, t.Revision), append(a.bodies, format.AppendThread(nil, t))
}

func (w *writing) writeThreads(rows []*mailroom.Thread) {
	var old, fresh threadColumns
	var inserted []*mailroom.Thread
	for _, row := range rows {
		if row.Key != 0 {
			old.add(row)
			continue
		}
		fresh.add(row)
		inserted = append(inserted, row)
		w.counts.add(sqlstore.TalliedThread, row.Owner, "", 1)
	}
	if a := &old; len(a.keys) > 0 {
		w.trip.add(nil, updateThreads, len(a.keys), a.keys, a.agents, a.workers, a.dueAts, a.dueAgents, a.duePriorities, a.alone, a.currents, a.deliver,
			a.deleted, a.revisions, a.bodies)
	}
	if a := &fresh; len(a.ids) > 0 {
		w.trip.add(setKeys(inserted, func(t *mailroom.Thread, key int64) { t.Key = key }), insertThreads, len(a.ids), a.ids, a.owners, a.agents, a.workers,
			a.dueAts, a.dueAgents, a.duePriorities, a.alone, a.currents, a.deliver, a.deleted, a.revisions, a.bodies)
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

// runColumns has the values of runs, one array per column.
type runColumns struct {
	ids, threadIDs, agents, owners, parents, submitKeys, statuses   []string
	keys, threads, piles, priorities, places, notBefores, firstSeqs []int64
	isLate                                                          []bool
	bodies                                                          [][]byte
}

func (a *runColumns) add(r *mailroom.Run) {
	a.parents, a.submitKeys = append(a.parents, r.Parent), append(a.submitKeys, r.SubmitKey)
	a.statuses, a.piles = append(a.statuses, string(r.Status)), append(a.piles, pileOf(r))
	a.priorities, a.places = append(a.priorities, int64(r.Priority)), append(a.places, r.Place)
	a.notBefores, a.bodies = append(a.notBefores, micros(r.NotBefore)), append(a.bodies, format.AppendRun(nil, r))
}

func (w *writing) writeRuns(c *store.Changes) error {
	var old, fresh runColumns
	var inserted []*mailroom.Run
	for _, r := range c.Runs {
		if r.Key != 0 {
			old.keys = append(old.keys, r.Key)
			old.add(r)
			w.countMove(r)
			continue
		}
		t, err := w.owner(r.Thread, "new run "+r.ID)
		if err != nil {
			return err
		}
		late := r.FirstSeq < t.sorted
		if !late {
			t.sorted = r.FirstSeq
		}
		fresh.ids, fresh.agents = append(fresh.ids, r.ID), append(fresh.agents, r.Agent)
		fresh.threads, fresh.threadIDs = append(fresh.threads, t.row.Key), append(fresh.threadIDs, r.Thread)
		fresh.owners = append(fresh.owners, t.row.Owner)
		fresh.firstSeqs, fresh.isLate = append(fresh.firstSeqs, r.FirstSeq), append(fresh.isLate, late)
		fresh.add(r)
		inserted = append(inserted, r)
		w.counts.add(string(r.Status), t.row.Owner, r.Agent, 1)
		r.Stored = r.Status
	}
	if a := &fresh; len(a.ids) > 0 {
		w.trip.add(setKeys(inserted, func(r *mailroom.Run, key int64) { r.Key = key }), insertRuns, len(a.ids), a.ids, a.threads, a.threadIDs, a.agents,
			a.owners, a.parents, a.submitKeys, a.statuses, a.piles, a.priorities, a.places, a.notBefores, a.firstSeqs, a.isLate, a.bodies)
	}
	if a := &old; len(a.keys) > 0 {
		w.trip.add(nil, updateRuns, len(a.keys), a.keys, a.parents, a.submitKeys, a.statuses, a.piles, a.priorities, a.places, a.notBefores, a.bodies)
	}
	w.writeFailures(c.Runs)
	w.writeDeadlines(c.Runs)
	return nil
}

// countMove counts the new status of a run.
func (w *writing) countMove(r *mailroom.Run) {
	if r.Stored == r.Status {
		return
	}
	if t := w.threads[r.Thread]; t != nil {
		w.counts.add(string(r.Stored), t.row.Owner, r.Agent, -1)
		w.counts.add(string(r.Status), t.row.Owner, r.Agent, 1)
	} else {
		w.counts.addRun(r.Key, string(r.Stored), -1)
		w.counts.addRun(r.Key, string(r.Status), 1)
	}
	r.Stored = r.Status
}

func (w *writing) writeEntries(c *store.Changes) error {
	var keys, lasts, firsts []int64
	var ids []string
	var lines [][]byte
	for _, list := range c.Entries {
		if len(list) == 0 {
			continue
		}
		t, err := w.owner(list[0].Thread, "entries")
		if err != nil {
			return err
		}
		joined, err := format.JoinEntries(list)
		if err != nil {
			return err
		}
		keys, ids = append(keys, t.row.Key), append(ids, t.row.ID)
		lasts, firsts, lines = append(lasts, list[len(list)-1].Seq), append(firsts, list[0].Seq), append(lines, joined)
	}
	if len(keys) > 0 {
		w.trip.add(nil, insertEntries, keys, ids, lasts, firsts, lines)
	}
	return nil
}

// writeKeys writes submit keys. A key that made no run stores the LastSeq of its thread, and is
// dropped with that part of the log; other keys are dropped with their runs.
func (w *writing) writeKeys(c *store.Changes) error {
	var threads, joined []int64
	var ids, keys, digests, runs []string
	var results [][]byte
	for i := range c.Keys {
		k := &c.Keys[i]
		t, err := w.owner(k.Thread, "submit key "+k.Key)
		if err != nil {
			return err
		}
		at, ok := k.JoinedAt(t.row)
		if !ok {
			at = -1
		}
		threads, ids, joined = append(threads, t.row.Key), append(ids, k.Thread), append(joined, at)
		keys, digests, runs = append(keys, k.Key), append(digests, k.Digest), append(runs, k.Result.Run)
		results = append(results, []byte(format.EncodeSubmitted(&k.Result)))
	}
	if len(keys) > 0 {
		w.trip.add(nil, insertKeys, threads, ids, keys, digests, runs, results, joined)
	}
	return nil
}

func (w *writing) writePartials(partials []store.Partial) {
	type place struct {
		run   string
		start int
	}
	rows := lastOfEach(partials, func(p store.Partial) place { return place{p.Run, p.Offset} })
	var runs, messages []string
	var starts, attempts []int64
	var contents [][]byte
	for _, p := range rows {
		runs, messages, contents = append(runs, p.Run), append(messages, p.Message), append(contents, []byte(p.Text))
		starts, attempts = append(starts, int64(p.Offset)), append(attempts, int64(p.Attempt))
	}
	if len(rows) > 0 {
		w.trip.add(nil, putPartials, len(rows), runs, starts, attempts, messages, contents)
	}
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

func (w *writing) writeWorkers(workers []*store.Worker) {
	var ids []string
	var bodies [][]byte
	for _, row := range lastOfEach(workers, func(row *store.Worker) string { return row.ID }) {
		ids, bodies = append(ids, row.ID), append(bodies, format.AppendWorker(nil, row))
	}
	if len(ids) > 0 {
		w.trip.add(nil, putWorkers, ids, bodies)
	}
}

func (w *writing) writeTickets(tickets []*mailroom.Ticket) {
	var old, fresh struct {
		keys                             []int64
		ids, threads, runs, kinds, state []string
		bodies                           [][]byte
	}
	var inserted []*mailroom.Ticket
	for _, k := range tickets {
		into := &old
		if k.Key == 0 {
			into = &fresh
			inserted = append(inserted, k)
		}
		into.keys, into.ids = append(into.keys, k.Key), append(into.ids, k.ID)
		into.threads, into.runs = append(into.threads, k.Thread), append(into.runs, k.Run)
		into.kinds, into.state = append(into.kinds, string(k.Kind)), append(into.state, string(k.State))
		into.bodies = append(into.bodies, format.AppendTicket(nil, k))
	}
	if len(fresh.ids) > 0 {
		w.trip.add(setKeys(inserted, func(k *mailroom.Ticket, key int64) { k.Key = key }), insertTickets, len(fresh.ids),
			fresh.ids, fresh.threads, fresh.runs, fresh.kinds, fresh.state, fresh.bodies)
	}
	if len(old.ids) > 0 {
		w.trip.add(nil, updateTickets, len(old.ids), old.keys, old.ids, old.kinds, old.state, old.bodies)
	}
}

func (w *writing) writeTokens(c *store.Changes) {
	var old, fresh struct {
		keys   []int64
		names  []string
		bodies [][]byte
	}
	var inserted []*auth.Token
	use := slices.Clone(c.Use)
	for _, row := range c.Tokens {
		into := &old
		if row.Key == 0 {
			into = &fresh
			inserted = append(inserted, row)
			use = append(use, store.UseChange{Token: row.Name, Add: row.Used})
		}
		into.keys, into.names = append(into.keys, row.Key), append(into.names, row.Name)
		into.bodies = append(into.bodies, format.AppendToken(nil, row))
	}
	if len(fresh.names) > 0 {
		w.trip.add(setKeys(inserted, func(t *auth.Token, key int64) { t.Key = key }), insertTokens, len(fresh.names), fresh.names, fresh.bodies)
	}
	if len(old.names) > 0 {
		w.trip.add(nil, updateTokens, len(old.names), old.keys, old.names, old.bodies)
	}
	w.addUse(use)
}

func (w *writing) addUse(changes []store.UseChange) {
	sums := map[string]auth.Use{}
	var names []string
	for _, u := range changes {
		if _, ok := sums[u.Token]; !ok {
			names = append(names, u.Token)
		}
		sums[u.Token] = sums[u.Token].Plus(u.Add)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return sums[name] == auth.Use{} })
	var threads, bytes, workers, notifications []int64
	for _, name := range names {
		u := sums[name]
		threads, bytes = append(threads, u.Threads), append(bytes, u.Bytes)
		workers, notifications = append(workers, u.Workers), append(notifications, u.Notifications)
	}
	if len(names) > 0 {
		w.trip.add(nil, addUse, w.node, names, threads, bytes, workers, notifications)
	}
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
