package postgres

import (
	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	updateThreads = `WITH w AS (UPDATE thread t SET agent = u.agent, worker = nullif(u.worker, ''),
		due_at = nullif(u.due_at, 0),
		due_agent = CASE WHEN u.due_at <> 0 THEN u.due_agent END,
		due_priority = CASE WHEN u.due_at <> 0 THEN u.due_priority END,
		due_alone = CASE WHEN u.due_at <> 0 THEN u.due_alone END, current_run = nullif(u.current_run, ''),
		deliver_to = nullif(u.deliver_to, ''), deleted = nullif(u.deleted, false), revision = u.revision, body = u.body
		FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::boolean[],
		$9::text[], $10::text[],
			$11::boolean[], $12::bigint[], $13::bytea[])
			u (key, agent, worker, due_at, due_agent, due_priority, due_alone, current_run, deliver_to, deleted, revision,
			body)
		WHERE t.key = u.key RETURNING 1)` + checkRows

	// Keys grow in the order of the arrays. The rows are inserted by id, so that two transactions
	// that insert the same ids do not wait for each other in a cycle.
	insertThreads = `WITH new AS MATERIALIZED (SELECT nextval('thread_key') AS key, u.* FROM
		unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::boolean[],
		$10::text[], $11::text[],
			$12::boolean[], $13::bigint[], $14::bytea[])
			u (id, owner, agent, worker, due_at, due_agent, due_priority, due_alone, current_run, deliver_to, deleted,
			revision, body)),
		w AS (INSERT INTO thread (key, id, owner, agent, worker, due_at, due_agent, due_priority, due_alone,
		current_run, deliver_to, deleted, revision, body)
			SELECT key, id, owner, agent, nullif(worker, ''), nullif(due_at, 0), CASE WHEN due_at <> 0 THEN due_agent END,
			CASE WHEN due_at <> 0 THEN due_priority END, CASE WHEN due_at <> 0 THEN due_alone END, nullif(current_run, ''),
			nullif(deliver_to, ''), nullif(deleted, false), revision, body FROM new ORDER BY id RETURNING key)` + checkKeys
	// dueEach seeks one thread for each Due.Agent, and skips the gates in one seek.
	dueEach = `WITH RECURSIVE each (key, agent) AS (
		(SELECT t.key, t.due_agent FROM thread t WHERE t.due_at IS NOT NULL ORDER BY t.due_agent LIMIT 1)
		UNION ALL SELECT n.key, n.due_agent FROM each e CROSS JOIN LATERAL (
			SELECT t.key, t.due_agent FROM thread t WHERE t.due_at IS NOT NULL AND t.due_agent >
				CASE WHEN e.agent < '#' OR e.agent >= '$' THEN e.agent ELSE '$' END
			ORDER BY t.due_agent LIMIT 1) n)
		SELECT t.key, t.body FROM each e JOIN thread t ON t.key = e.key
			WHERE e.agent < '#' OR e.agent >= '$' ORDER BY e.agent`
	dropThreads = "SELECT drop_threads($1, $2::text[])"
)

func scanThread(c *columns) (*mailroom.Thread, error) {
	t := &mailroom.Thread{Key: c.Int64()}
	return t, format.ParseThread(c.Text(), t)
}

// Threads implements [store.Reader].
func (r reader) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	var s sqlstore.Select
	if q.OnePerAgent {
		s.Add(dueEach)
		return list(r, "read due agents", &s, 0, 0, scanThread)
	}
	s.Add("SELECT t.key, t.body FROM thread t")
	budget := q.Bytes
	if q.Prefix != "" {
		s.Cond("t.id >= ? AND t.id > ? AND t.deleted IS NULL", q.Prefix, q.After)
		if end := sqlstore.PrefixEnd(q.Prefix); end != "" {
			s.Cond("t.id < ?", end)
		}
		s.Add(" ORDER BY t.id")
		return list(r, "read threads", &s, q.Limit, budget, scanThread)
	}
	if len(q.IDs) > 0 {
		s.Cond("t.id = ANY (?::text[])", sqlstore.Distinct(q.IDs))
		budget = 0
	}
	s.Equal("t.worker", q.Worker)
	s.Equal("t.agent", q.Agent)
	s.Equal("t.owner", q.Owner)
	s.Equal("t.deliver_to", q.DeliverTo)
	if q.Deleted {
		s.Cond("t.deleted")
	} else {
		s.Cond("t.deleted IS NULL")
	}
	s.ByKey("t.key", q.From, q.Oldest)
	return list(r, "read threads", &s, q.Limit, budget, scanThread)
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

// values returns the arguments of a statement: its first ones, and the columns that may change.
func (a *threadColumns) values(first ...any) []any {
	return append(first, a.agents, a.workers, a.dueAts, a.dueAgents, a.duePriorities, a.alone, a.currents, a.deliver,
		a.deleted, a.revisions, a.bodies)
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
		w.trip.add(nil, updateThreads, a.values(len(a.keys), a.keys)...)
	}
	if a := &fresh; len(a.ids) > 0 {
		keys := setKeys(inserted, func(t *mailroom.Thread) *int64 { return &t.Key })
		w.trip.add(keys, insertThreads, a.values(len(a.ids), a.ids, a.owners)...)
	}
}
