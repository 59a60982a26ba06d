package sqlite

import (
	"slices"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	insertRun = `INSERT INTO run (parent, status, queue, priority, place, not_before, body,
		key, id, agent, thread, owner, first_seq, late_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	moveRun = `UPDATE run SET parent = ?, status = ?, queue = ?, priority = ?, place = ?,
		not_before = ?, body = ? WHERE key = ?`

	// updateRun leaves out the status, whose index would be written too. moveStartedRun and
	// updateStartedRun also leave out the columns that only queued runs use.
	updateRun = `UPDATE run SET parent = ?, queue = ?, priority = ?, place = ?,
		not_before = ?, body = ? WHERE key = ?`
	moveStartedRun   = `UPDATE run SET parent = ?, status = ?, body = ? WHERE key = ?`
	updateStartedRun = `UPDATE run SET parent = ?, body = ? WHERE key = ?`

	ownerOfRun = "SELECT t.owner FROM run r JOIN thread t ON t.key = r.thread WHERE r.key = ?"

	allRuns = "SELECT r.key, r.body FROM run r"

	// CROSS JOIN reads the failures first: their index has the order of the list.
	failedRuns = "SELECT r.key, r.body FROM failure f CROSS JOIN run r ON r.key = f.run"
)

// nextRun selects the first run of the queue of a thread.
const nextRun = "SELECT r.key, r.body FROM run r WHERE r.thread = ? AND r.queue = 0 " +
	"ORDER BY r.priority, r.place, r.key LIMIT 1"

const runsWith = "SELECT r.key, r.body FROM run r WHERE r.id " // … IN list

func (r reader) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	if len(q.IDs) > 0 {
		return r.runsByID(q)
	}
	if q.Set == store.RunsNext {
		return nextRuns(r, q.Threads)
	}
	if len(q.Threads) > 0 {
		return runsWithin(r, q)
	}
	if !q.Overdue.IsZero() {
		return overdueRuns(r, q)
	}
	if q.Prefix != "" {
		return runsUnder(r, q)
	}
	if q.Group != "" {
		return runsOfError(r, q)
	}
	if q.Owner != "" || isOfAgent(q) {
		return runsOfGroups(r, q)
	}
	parts := []store.RunQuery{q}
	if q.Thread == "" && q.Parent == "" && len(q.Statuses) > 1 {
		// A partial index per status has the order of the list.
		parts = parts[:0]
		for _, status := range sqlstore.Distinct(q.Statuses) {
			part := q
			part.Statuses = []mailroom.Status{status}
			parts = append(parts, part)
		}
	}
	var found []sqlstore.SizedRun
	for _, part := range parts {
		of := r.runsOf
		if isRunning(part) {
			of = r.runningRuns
		}
		rows, err := of(part)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	if len(parts) > 1 {
		sqlstore.SortRuns(found, q.Oldest)
	}
	return sqlstore.FirstRuns(found, sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}), nil
}

// runsUnder reads the runs whose ids have a prefix, which are adjacent in the index of ids.
func runsUnder(r reader, q store.RunQuery) (found []*mailroom.Run, err error) {
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	var s sqlstore.Select
	s.Add(allRuns)
	s.Under("r.id", q.Prefix, q.After)
	err = r.query("read runs", s.Text(), s.Args(), func(c *columns) (bool, error) {
		run, err := scanRun(c)
		found = append(found, run)
		return g.Add(c.size), err
	})
	return found, err
}

// nextRuns reads the first run of the queue of each thread.
func nextRuns(r reader, threads []int64) (runs []*mailroom.Run, err error) {
	for _, key := range threads {
		err := r.query("read runs", nextRun, []any{key}, func(c *columns) (bool, error) {
			run, err := scanRun(c)
			runs = append(runs, run)
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// isOfAgent reports whether q asks for runs of an agent that no index of a thread, a parent or a status has.
func isOfAgent(q store.RunQuery) bool {
	return q.Agent != "" && q.Thread == "" && q.Parent == "" && q.Set == store.RunsAll &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, mailroom.StatusCompleted))
}

// isRunning reports whether q asks for the running runs of all threads.
func isRunning(q store.RunQuery) bool {
	return q.Thread == "" && q.Parent == "" && len(q.Statuses) == 1 && q.Statuses[0] == mailroom.StatusRunning
}

// runningRuns reads the running runs, which no index has, through the threads that are claimed.
func (r reader) runningRuns(q store.RunQuery) ([]sqlstore.SizedRun, error) {
	var ids []string
	err := r.query("read claimed threads", claimedThreads, nil, func(c *columns) (bool, error) {
		t, err := scanThread(c)
		ids = append(ids, t.Current)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	found, err := r.runsNamed(ids, q)
	if err != nil {
		return nil, err
	}
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	for i := range found {
		if !g.Add(found[i].Size) {
			return found[:i+1], nil
		}
	}
	return found, nil
}

// runsOf reads a list of runs in the order of an index.
func (r reader) runsOf(q store.RunQuery) ([]sqlstore.SizedRun, error) {
	var s sqlstore.Select
	s.Add(allRuns)
	if !whichRuns(&s, q) {
		return nil, nil
	}
	switch q.Set {
	case store.RunsQueued:
		s.Add(" ORDER BY r.priority, r.place, r.key")
	case store.RunsScheduled:
		s.Add(" ORDER BY r.not_before, r.place, r.key")
	default:
		s.ByKey("r.key", q.From, q.Oldest)
	}
	var runs []sqlstore.SizedRun
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	err := r.query("read runs", s.Text(), s.Args(), func(c *columns) (bool, error) {
		run, err := scanRun(c)
		size := c.size
		runs = append(runs, sqlstore.SizedRun{Run: run, Size: size})
		return g.Add(size), err
	})
	return runs, err
}

// runsByID reads the rows with the ids of q, which are few.
func (r reader) runsByID(q store.RunQuery) ([]*mailroom.Run, error) {
	found, err := r.runsNamed(q.IDs, q)
	if err != nil {
		return nil, err
	}
	return sqlstore.FirstRuns(found, sqlstore.Gauge{Limit: q.Limit}), nil
}

// runsNamed reads the rows with these ids that match q, in its order.
func (r reader) runsNamed(ids []string, q store.RunQuery) ([]sqlstore.SizedRun, error) {
	var found []sqlstore.SizedRun
	for args := range inLists(sqlstore.Distinct(ids)) {
		err := lookUp(r, "read runs", runsWith+in(args), args, func(c *columns) (bool, error) {
			run, err := scanRun(c)
			if err == nil && matches(run, q) {
				found = append(found, sqlstore.SizedRun{Run: run, Size: c.size})
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	sqlstore.SortRuns(found, q.Oldest)
	return found, nil
}

func matches(run *mailroom.Run, q store.RunQuery) bool {
	switch {
	case q.Thread != "" && run.Thread != q.Thread,
		q.Agent != "" && run.Agent != q.Agent,
		q.Parent != "" && run.Parent != q.Parent,
		len(q.Statuses) > 0 && !slices.Contains(q.Statuses, run.Status),
		q.From != 0 && q.Oldest && run.Key <= q.From,
		q.From != 0 && !q.Oldest && run.Key >= q.From,
		q.Set != store.RunsAll && !(run.NeverStarted() && run.Scheduled == (q.Set == store.RunsScheduled)):
		return false
	}
	return true
}

// whichRuns adds all conditions of q except IDs and From to s. It reports false if no run can match.
func whichRuns(s *sqlstore.Select, q store.RunQuery) bool {
	if q.Thread != "" {
		s.Cond("r.thread = (SELECT key FROM thread WHERE id = ?)", q.Thread)
	}
	s.Equal("r.agent", q.Agent)
	s.Equal("r.parent", q.Parent)
	statuses := known(q.Statuses, allStatuses()...)
	if len(q.Statuses) > 0 && statuses == "" {
		return false
	}
	oneOf(s, "r.status", statuses)
	if q.Thread == "" && q.Parent == "" && statuses != "" && !slices.Contains(q.Statuses, mailroom.StatusCompleted) {
		s.Cond("r.status <> 'completed' AND r.status <> 'running'") // the condition of the partial index
	}
	switch q.Set {
	case store.RunsQueued:
		s.Cond("r.queue = 0")
	case store.RunsScheduled:
		s.Cond("r.queue = 1")
	}
	return true
}

// bindRun appends the values of insertRun from parent to body. The columns of the queue's order are
// set only while the run is in the queue. Without status they are those of updateRun.
func bindRun(args []value, r *mailroom.Run, body []byte, status bool) []value {
	args = append(args, orNull(r.Parent))
	if status {
		args = append(args, textValue(string(r.Status)))
	}
	switch {
	case !r.NeverStarted():
		args = append(args, value{}, value{}, value{}, value{})
	case r.Scheduled:
		args = append(args, intValue(1), value{}, intValue(r.Place), micros(r.NotBefore))
	default:
		args = append(args, intValue(0), intValue(int64(r.Priority)), intValue(r.Place), value{})
	}
	return append(args, blobValue(body))
}

// runUpdate returns the cheapest statement that updates a run's row, and its values among those
// that bindRun appended with the same status.
func runUpdate(r *mailroom.Run, args []value, status bool) (text string, _ []value) {
	started := r.Stored != mailroom.StatusQueued && !r.NeverStarted() // now and in the store
	switch {
	case started && status:
		return moveStartedRun, slices.Delete(args, 2, 6)
	case started:
		return updateStartedRun, slices.Delete(args, 1, 5)
	case status:
		return moveRun, args
	}
	return updateRun, args
}

// scanRun decodes the key and the body.
func scanRun(c *columns) (*mailroom.Run, error) {
	r := &mailroom.Run{Key: c.Int64()}
	return r, format.ParseRun(c.body(), r)
}

// runsOfError reads the failed runs of an error group, of one owner or all.
func runsOfError(r reader, q store.RunQuery) (runs []*mailroom.Run, err error) {
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	var s sqlstore.Select
	s.Add(failedRuns)
	s.Equal("f.error_group", q.Group)
	s.Equal("f.owner", q.Owner)
	s.ByKey("f.run", q.From, q.Oldest)
	err = r.query("read runs", s.Text(), s.Args(), func(c *columns) (bool, error) {
		run, err := scanRun(c)
		runs = append(runs, run)
		return g.Add(c.size), err
	})
	return runs, err
}

// writeRun writes the row of a run, whose body the encoder has made.
func (t *tx) writeRun(run *mailroom.Run, body []byte, among map[string]*written) error {
	moves := run.Key == 0 || run.Stored != run.Status
	args := bindRun(t.store.args[:0], run, body, moves)
	t.store.args = args
	if run.Key != 0 {
		return t.updateRun(run, args, moves, among[run.Thread])
	}
	w := among[run.Thread]
	if w == nil {
		return mailroom.Errorf(mailroom.CodeInternal, "new run %q: its thread %q is not in the changes", run.ID, run.Thread)
	}
	var late value
	if run.FirstSeq < w.sorted {
		late = intValue(run.FirstSeq)
	} else {
		w.sorted = run.FirstSeq
	}
	t.given.run++
	run.Key = t.given.run
	t.tally(string(run.Status), w.row.Owner, run.Agent, 1)
	run.Stored = run.Status
	args = append(args, intValue(run.Key), textValue(run.ID), textValue(run.Agent), intValue(w.row.Key),
		textValue(w.row.Owner), intValue(run.FirstSeq), late)
	if err := t.store.newRows.runs.add(t, args...); err != nil {
		return err
	}
	if err := writeDeadline(t, run); err != nil {
		return err
	}
	return t.writeFailure(run, "", w.row.Owner)
}

// updateRun updates an existing run. w is the run's thread if the Changes contain that thread, else nil.
func (t *tx) updateRun(run *mailroom.Run, args []value, moves bool, w *written) error {
	text, args := runUpdate(run, args, moves)
	res, err := execRow(t, text, append(args, intValue(run.Key)))
	if err := wrote(res, err, "run", run.ID, run.Key); err != nil {
		return err
	}
	if err := writeDeadline(t, run); err != nil || !moves && run.Status != mailroom.StatusFailed {
		return err
	}
	owner := ""
	if w != nil {
		owner = w.row.Owner
	} else if owner, err = t.ownerOf(run.Key); err != nil {
		return err
	}
	before := run.Stored
	t.tally(string(before), owner, run.Agent, -1)
	t.tally(string(run.Status), owner, run.Agent, 1)
	run.Stored = run.Status
	return t.writeFailure(run, before, owner)
}

// ownerOf reads the owner of a run's thread.
func (t *tx) ownerOf(run int64) (owner string, err error) {
	err = t.session.query(t.ctx, ownerOfRun, []any{run}, func(c *columns) (bool, error) {
		owner = c.Text()
		return false, nil
	})
	return owner, err
}
