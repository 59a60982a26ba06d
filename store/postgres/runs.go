package postgres

import (
	"slices"

	"mailroom"
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

const (
	insertRuns = `WITH w AS (INSERT INTO run (id, thread, agent, owner, parent, submit_key, status, pile, priority,
		place, not_before, first_seq, late_seq, body)
		SELECT u.id, ` + threadOf + `, u.agent, u.owner, nullif(u.parent, ''), nullif(u.submit_key, ''), u.status,
			nullif(u.pile, -1),
			CASE WHEN u.pile = 0 THEN u.priority END, CASE WHEN u.pile IN (0, 1) THEN u.place END,
			CASE WHEN u.pile = 1 THEN u.not_before END,
			u.first_seq, CASE WHEN u.late THEN u.first_seq END, u.body
		FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
		$10::bigint[], $11::bigint[],
			$12::bigint[], $13::bigint[], $14::bigint[], $15::boolean[], $16::bytea[]) WITH ORDINALITY
			u (id, thread, thread_id, agent, owner, parent, submit_key, status, pile, priority, place, not_before,
			first_seq, late, body, n)
		ORDER BY u.n RETURNING key)` + checkKeys
	updateRuns = `WITH w AS (UPDATE run r SET parent = nullif(u.parent, ''), submit_key = nullif(u.submit_key, ''),
		status = u.status, pile = nullif(u.pile, -1),
			priority = CASE WHEN u.pile = 0 THEN u.priority END, place = CASE WHEN u.pile IN (0, 1) THEN u.place END,
			not_before = CASE WHEN u.pile = 1 THEN u.not_before END, body = u.body
		FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
		$9::bigint[], $10::bytea[])
			u (key, parent, submit_key, status, pile, priority, place, not_before, body)
		WHERE r.key = u.key RETURNING 1)` + checkRows
)

// Runs implements [store.Reader].
func (r reader) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	if q.Set == store.RunsNext {
		return nextRuns(r, q.Threads)
	}
	if len(q.Threads) > 0 {
		return r.runsWithin(q)
	}
	if !q.Overdue.IsZero() {
		return overdueRuns(r, q)
	}
	if q.Prefix != "" {
		var s sqlstore.Select
		s.Add("SELECT r.key, r.body FROM run r")
		s.Under("r.id", q.Prefix, q.After)
		return list(r, "read runs", &s, q.Limit, q.Bytes, scanRun)
	}
	if q.Owner != "" || q.Group != "" {
		return listRuns(r, q)
	}
	piles := []int64{pileNone} // all: without the index by pile
	if len(q.Statuses) > 0 && len(q.IDs) == 0 && q.Thread == "" && q.Parent == "" && q.Set == store.RunsAll &&
		!slices.Contains(q.Statuses, mailroom.StatusCompleted) {
		piles = nil
		for _, status := range q.Statuses {
			piles = append(piles, pilesOf(status)...)
		}
		slices.Sort(piles)
		piles = slices.Compact(piles)
	}
	var found []sqlstore.SizedRun
	for _, pile := range piles {
		rows, err := r.runsOf(q, pile)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	if len(piles) > 1 || len(q.IDs) > 0 {
		sqlstore.SortRuns(found, q.Oldest)
	}
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	if len(q.IDs) > 0 {
		g.Budget = 0
	}
	return sqlstore.FirstRuns(found, g), nil
}

// runsOf reads a list of runs, with a pile in the order of the index of piles.
func (r reader) runsOf(q store.RunQuery, pile int64) ([]sqlstore.SizedRun, error) {
	var s sqlstore.Select
	s.Add("SELECT r.key, r.body FROM run r")
	limit, budget := q.Limit, q.Bytes
	if len(q.IDs) > 0 {
		s.Cond("r.id = ANY (?::text[])", sqlstore.Distinct(q.IDs))
		limit, budget = 0, 0
	}
	switch pile {
	case pileNone:
	case pileRunning:
		s.Cond("r.id = ANY (ARRAY(SELECT current_run FROM thread WHERE worker IS NOT NULL))")
	default:
		s.Cond("r.pile = ?", pile)
	}
	whichRuns(&s, q)
	switch q.Set {
	case store.RunsQueued:
		s.Add(" ORDER BY r.priority, r.place, r.key")
	case store.RunsScheduled:
		s.Add(" ORDER BY r.not_before, r.place, r.key")
	default:
		s.ByKey("r.key", q.From, q.Oldest)
	}
	return list(r, "read runs", &s, limit, budget, func(c *columns) (sqlstore.SizedRun, error) {
		run, err := scanRun(c)
		return sqlstore.SizedRun{Run: run, Size: c.size}, err
	})
}

// nextRuns reads the first run of the queue of each thread.
func nextRuns(r reader, threads []int64) ([]*mailroom.Run, error) {
	var s sqlstore.Select
	s.Add("SELECT n.key, n.body FROM unnest(?::bigint[]) u (key) CROSS JOIN LATERAL (SELECT r.key, r.body FROM run r "+
		"WHERE r.thread = u.key AND r.pile = 0 ORDER BY r.priority, r.place, r.key LIMIT 1) n", threads)
	return list(r, "read runs", &s, 0, 0, scanRun)
}

// whichRuns adds all conditions of q except IDs and From to s.
func whichRuns(s *sqlstore.Select, q store.RunQuery) {
	if q.Thread != "" {
		s.Cond("r.thread = (SELECT key FROM thread WHERE id = ?)", q.Thread)
	}
	s.Equal("r.agent", q.Agent)
	s.Equal("r.parent", q.Parent)
	if len(q.Statuses) > 0 {
		s.Cond("r.status = ANY (?::text[])", plainTexts(q.Statuses))
	}
	switch q.Set {
	case store.RunsQueued:
		s.Cond("r.pile = 0")
	case store.RunsScheduled:
		s.Cond("r.pile = 1")
	}
}

func plainTexts[T ~string](list []T) []string {
	plain := make([]string, len(list))
	for i, v := range list {
		plain[i] = string(v)
	}
	return plain
}

func scanRun(c *columns) (*mailroom.Run, error) {
	r := &mailroom.Run{Key: c.Int64()}
	return r, format.ParseRun(c.Text(), r)
}

// listRuns reads the runs of an owner or of an error group, or of both.
func listRuns(r reader, q store.RunQuery) (runs []*mailroom.Run, err error) {
	g, more := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}, true
	read := func(text, key, cond string, args ...any) {
		if err != nil || !more {
			return
		}
		var s sqlstore.Select
		s.Add(text)
		s.Cond(cond, args...)
		s.ByKey(key, q.From, q.Oldest)
		limit, budget := q.Limit, q.Bytes // less what another statement has read; 0 is no limit
		if limit > 0 {
			limit -= g.Rows
		}
		if budget > 0 {
			budget = max(budget-g.Bytes, 1)
		}
		var found []sqlstore.SizedRun
		found, err = list(r, "read runs", &s, limit, budget, func(c *columns) (sqlstore.SizedRun, error) {
			run, err := scanRun(c)
			return sqlstore.SizedRun{Run: run, Size: c.size}, err
		})
		for _, row := range found {
			runs, more = append(runs, row.Run), g.Add(row.Size)
		}
	}
	const ofRuns = "SELECT r.key, r.body FROM run r"
	// A join of the tables may read one of them whole. The subquery is a search by key for each row of the
	// page.
	const ofFailures = "SELECT f.run, (SELECT r.body FROM run r WHERE r.key = f.run) FROM failure f"
	switch {
	case q.Group != "" && q.Owner != "":
		read(ofFailures, "f.run", "f.error_group = ? AND f.owner = ?", q.Group, q.Owner)
	case q.Group != "":
		read(ofFailures, "f.run", "f.error_group = ?", q.Group)
	case q.Oldest: // the runs without an owner have the lowest keys
		read(ofRuns, "r.key", "r.owner IS NULL")
		read(ofRuns, "r.key", "r.owner = ?", q.Owner)
	default:
		read(ofRuns, "r.key", "r.owner = ?", q.Owner)
		read(ofRuns, "r.key", "r.owner IS NULL")
	}
	return runs, err
}

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

// values returns the arguments of a statement: its first ones, and the columns that may change, without the bodies.
func (a *runColumns) values(first ...any) []any {
	return append(first, a.parents, a.submitKeys, a.statuses, a.piles, a.priorities, a.places, a.notBefores)
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
		keys := setKeys(inserted, func(r *mailroom.Run) *int64 { return &r.Key })
		values := a.values(len(a.ids), a.ids, a.threads, a.threadIDs, a.agents, a.owners)
		w.trip.add(keys, insertRuns, append(values, a.firstSeqs, a.isLate, a.bodies)...)
	}
	if a := &old; len(a.keys) > 0 {
		w.trip.add(nil, updateRuns, append(a.values(len(a.keys), a.keys), a.bodies)...)
	}
	w.writeFailures(c.Runs)
	w.writeDeadlines(c.Runs)
	return nil
}
