package sqlite

import (
	"database/sql/driver"
	"slices"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
)

const (
	insertThread = `INSERT INTO thread (agent, worker, due_at, due_agent, due_priority, due_alone, due_owner, body,
		deliver_to, deleted, key, id, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// No UPDATE sets the id of a row or the agent of a run. SQLite opens and rewrites the index of
	// every column that a statement sets, even to the same value, so each statement sets only what
	// may differ.
	updateThread = `UPDATE thread SET agent = ?, worker = ?, due_at = ?, due_agent = ?, due_priority = ?,
		due_alone = ?, due_owner = ?, body = ?, deliver_to = ?, deleted = ? WHERE key = ?`
	moveThread = `UPDATE thread SET worker = ?, due_at = ?, due_agent = ?, due_priority = ?,
		due_alone = ?, due_owner = ?, body = ? WHERE key = ?`
	touchThread = `UPDATE thread SET body = ? WHERE key = ?`

	insertRun = `INSERT INTO run (parent, status, queue, priority, place, not_before, body,
		key, id, agent, thread, owner, first_seq, late_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	moveRun = `UPDATE run SET parent = ?, status = ?, queue = ?, priority = ?, place = ?,
		not_before = ?, body = ? WHERE key = ?`
	// updateRun does not touch the status and its index; the last two statements do not touch the
	// columns that only queued runs use.
	updateRun = `UPDATE run SET parent = ?, queue = ?, priority = ?, place = ?,
		not_before = ?, body = ? WHERE key = ?`
	moveStartedRun   = `UPDATE run SET parent = ?, status = ?, body = ? WHERE key = ?`
	updateStartedRun = `UPDATE run SET parent = ?, body = ? WHERE key = ?`

	workerColumns = `id, host, pid, local, agents, started_at, lease_until, dead, owner, uncharged, node, duties, version`

	putWorker = `INSERT INTO worker (` + workerColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, local = excluded.local,
		agents = excluded.agents, started_at = excluded.started_at, lease_until = excluded.lease_until,
		dead = excluded.dead, owner = excluded.owner, uncharged = excluded.uncharged,
		node = excluded.node, duties = excluded.duties, version = excluded.version`
)

// bindThread appends the values of insertThread and updateThread up to the body.
func (s *Store) bindThread(args []any, t *mailroom.Thread) []any {
	args = append(args, t.Agent, orNull(t.Worker))
	if t.Due.At.IsZero() {
		args = append(args, nil, nil, nil, nil)
	} else {
		args = append(args, t.Due.At.UnixMicro(), t.Due.Agent, int64(t.Due.Priority), bit(t.Due.LastAttempt))
	}
	args = append(args, dueOwner(t))
	s.body = format.AppendThread(s.body[:0], t)
	return append(args, s.body)
}

// threadRow has the columns of a thread's row, without its body.
type threadRow struct {
	agent, worker, deliverTo string
	due                      mailroom.Due
	deleted                  bool
}

func rowOf(t *mailroom.Thread) threadRow {
	return threadRow{t.Agent, t.Worker, t.DeliverTo, t.Due, !t.DeletedAt.IsZero()}
}

// maxSeen bounds the map of rows that a transaction reuses from the previous one.
const maxSeen = 1024

// forgetRows clears the rows seen by the previous transaction.
func (s *Store) forgetRows() {
	if s.seen == nil || len(s.seen) > maxSeen {
		s.seen = make(map[int64]threadRow)
	}
	clear(s.seen)
}

// threadUpdate returns the cheapest statement that updates a thread's row, and its values among
// those of updateThread: only the columns that differ from the row that the transaction has seen.
func (s *Store) threadUpdate(t *mailroom.Thread, args []any) (text string, _ []any) {
	const agent, body, more = 0, 7, 8 // positions in args
	old, known := s.seen[t.Key]
	switch {
	case !known || old.agent != t.Agent || old.deliverTo != t.DeliverTo || old.deleted == t.DeletedAt.IsZero():
		return updateThread, args
	case old.worker != t.Worker || old.due != t.Due:
		return moveThread, args[agent+1 : more]
	}
	return touchThread, args[body:more]
}

// moreOfThread appends the values behind the body.
func moreOfThread(args []any, t *mailroom.Thread) []any {
	var deleted any
	if !t.DeletedAt.IsZero() {
		deleted = int64(1)
	}
	return append(args, orNull(t.DeliverTo), deleted)
}

// dueOwner returns the owner while the thread is due for an agent. The column groups due threads by
// owner.
func dueOwner(t *mailroom.Thread) any {
	if t.Due.Agent == "" {
		return nil
	}
	return t.Owner
}

// scanThread decodes the key and the body.
func scanThread(row []driver.Value) (*mailroom.Thread, error) {
	c := columns{row: row}
	t := &mailroom.Thread{Key: c.Int64()}
	return t, format.ParseThread(c.body(), t)
}

// bindRun appends the values of insertRun from parent to body. The columns of the queue's order are
// set only while the run is in the queue. Without status they are those of updateRun.
func (s *Store) bindRun(args []any, r *mailroom.Run, status bool) []any {
	args = append(args, orNull(r.Parent))
	if status {
		args = append(args, string(r.Status))
	}
	switch {
	case !r.NeverStarted():
		args = append(args, nil, nil, nil, nil)
	case r.Scheduled:
		args = append(args, int64(1), nil, r.Place, micros(r.NotBefore))
	default:
		args = append(args, int64(0), int64(r.Priority), r.Place, nil)
	}
	s.body = format.AppendRun(s.body[:0], r)
	return append(args, s.body)
}

// runUpdate returns the cheapest statement that updates a run's row, and its values among those
// that bindRun appended with the same status.
func runUpdate(r *mailroom.Run, args []any, status bool) (text string, _ []any) {
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
func scanRun(row []driver.Value) (*mailroom.Run, error) {
	c := columns{row: row}
	r := &mailroom.Run{Key: c.Int64()}
	return r, format.ParseRun(c.body(), r)
}

func scanWorker(row []driver.Value) (*store.Worker, error) {
	c := columns{row: row}
	w := &store.Worker{ID: c.Text(), Host: c.Text(), PID: c.Int(), Local: c.bool()}
	c.json(&w.Agents)
	w.StartedAt, w.LeaseUntil, w.Dead, w.Owner, w.Uncharged = c.Time(), c.Time(), c.bool(), c.Text(), c.bool()
	w.Node = c.Text()
	c.json(&w.Duties)
	w.Version = c.Text()
	return w, c.err
}
