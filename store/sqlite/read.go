package sqlite

import (
	"context"
	"slices"
	"strings"

	"mailroom"
)

// reader answers the queries on one connection, in the transaction that is
// open there.
type reader struct {
	ctx     context.Context
	session *session
}

// sel is a SELECT being put together: its parts are fixed texts, so that there
// are few statements, and all that varies is an argument.
type sel struct {
	text  strings.Builder
	args  []any
	where bool
}

func (q *sel) cond(text string, args ...any) {
	q.text.WriteString(map[bool]string{false: " WHERE ", true: " AND "}[q.where])
	q.text.WriteString(text)
	q.args = append(q.args, args...)
	q.where = true
}

func (q *sel) add(text string, args ...any) {
	q.text.WriteString(text)
	q.args = append(q.args, args...)
}

// limit is for SQL, where -1 is none.
func limit(n int) int64 {
	if n <= 0 {
		return -1
	}
	return int64(n)
}

func idList(ids []string) string { return string(appendTexts(nil, ids)) }

func (r reader) Threads(q mailroom.ThreadQuery) ([]*mailroom.Thread, error) {
	var s sel
	s.add("SELECT " + threadColumns + " FROM thread t")
	if len(q.IDs) > 0 {
		s.cond("t.id IN (SELECT value FROM json_each(?))", idList(q.IDs))
	}
	if q.Worker != "" {
		s.cond(unlessIDs(q.IDs, "t.worker = ?"), q.Worker)
	}
	if q.Agent != "" {
		s.cond("t.agent = ?", q.Agent)
	}
	if q.From != 0 && q.Oldest {
		s.cond(unlessIDs(q.IDs, "t.key > ?"), q.From)
	} else if q.From != 0 {
		s.cond(unlessIDs(q.IDs, "t.key < ?"), q.From)
	}
	if q.Oldest {
		s.add(" ORDER BY t.key LIMIT ?", limit(q.Limit))
	} else {
		s.add(" ORDER BY t.key DESC LIMIT ?", limit(q.Limit))
	}
	var found []*mailroom.Thread
	err := r.query("read threads", nThread, s.text.String(), s.args, func(row []any) (bool, error) {
		found = append(found, scanThread(row))
		return true, nil
	})
	return found, err
}

// unlessIDs keeps SQLite from choosing the index of a condition when the rows
// are named by id, which is always the better way to them.
func unlessIDs(ids []string, cond string) string {
	if len(ids) > 0 {
		return "+" + cond
	}
	return cond
}

func (r reader) Runs(q mailroom.RunQuery) ([]*mailroom.Run, error) {
	var s sel
	// CROSS JOIN keeps the order: from the runs to their threads.
	s.add("SELECT " + runColumns + " FROM run r CROSS JOIN thread t ON t.key = r.thread")
	if !s.whichRuns(q) {
		return nil, nil
	}
	if q.From != 0 {
		s.cond(unlessIDs(q.IDs, "r.key < ?"), q.From)
	}
	switch q.Set {
	case mailroom.QueueRuns:
		s.add(" ORDER BY r.priority, r.place, r.key LIMIT ?", limit(q.Limit))
	case mailroom.HeldRuns:
		s.add(" ORDER BY r.not_before, r.place, r.key LIMIT ?", limit(q.Limit))
	default:
		s.add(" ORDER BY r.key DESC LIMIT ?", limit(q.Limit))
	}
	var found []*mailroom.Run
	err := r.query("read runs", nRun, s.text.String(), s.args, func(row []any) (bool, error) {
		run, err := scanRun(row)
		found = append(found, run)
		return true, err
	})
	return found, err
}

func (r reader) CountRuns(q mailroom.RunQuery) (int, error) {
	var s sel
	s.add("SELECT count(*) FROM run r")
	if !s.whichRuns(q) {
		return 0, nil
	}
	var n int64
	err := r.query("count runs", 1, s.text.String(), s.args, func(row []any) (bool, error) {
		n, _ = row[0].(int64)
		return false, nil
	})
	return int(n), err
}

// whichRuns adds the conditions of q but From. It reports false when no run
// can match.
func (s *sel) whichRuns(q mailroom.RunQuery) bool {
	if len(q.IDs) > 0 {
		s.cond("r.id IN (SELECT value FROM json_each(?))", idList(q.IDs))
	}
	if q.Thread != "" {
		s.cond(unlessIDs(q.IDs, "r.thread = (SELECT key FROM thread WHERE id = ?)"), q.Thread)
	}
	if q.Agent != "" {
		s.cond("r.agent = ?", q.Agent)
	}
	if len(q.Statuses) > 0 {
		// Literals, because a partial index serves no parameter.
		var known []string
		for _, status := range []mailroom.Status{mailroom.Queued, mailroom.Running, mailroom.Waiting,
			mailroom.Completed, mailroom.Failed, mailroom.Cancelled} {
			if slices.Contains(q.Statuses, status) {
				known = append(known, "'"+string(status)+"'")
			}
		}
		switch len(known) {
		case 0:
			return false
		case 1:
			s.cond("r.status = " + known[0])
		default:
			s.cond("r.status IN (" + strings.Join(known, ", ") + ")")
		}
	}
	switch q.Set {
	case mailroom.QueueRuns:
		s.cond("r.status = 'queued' AND r.started_at IS NULL AND r.held = 0")
	case mailroom.HeldRuns:
		s.cond("r.status = 'queued' AND r.started_at IS NULL AND r.held = 1")
	}
	return true
}

func (r reader) Keys(thread string, keys []string) ([]mailroom.SubmitKey, error) {
	var found []mailroom.SubmitKey
	for _, key := range keys {
		err := r.query("read a submit key", 2, `SELECT digest, result FROM submit_key
			WHERE thread = (SELECT key FROM thread WHERE id = ?) AND key = ?`, []any{thread, key},
			func(row []any) (bool, error) {
				c := columns{row: row}
				k := mailroom.SubmitKey{Thread: thread, Key: key, Digest: c.text()}
				c.json(&k.Result)
				found = append(found, k)
				return false, c.err
			})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (r reader) Partials(run string) ([]mailroom.Partial, error) {
	var found []mailroom.Partial
	err := r.query("read partials", 5, `SELECT t.id, p.attempt, p.message, p.start, p.text
		FROM run r CROSS JOIN thread t ON t.key = r.thread CROSS JOIN partial p ON p.run = r.key
		WHERE r.id = ? ORDER BY p.start`, []any{run},
		func(row []any) (bool, error) {
			c := columns{row: row}
			found = append(found, mailroom.Partial{
				Thread: c.text(), Run: run, Attempt: c.int(), Message: c.text(), Offset: c.int(), Text: c.text(),
			})
			return true, nil
		})
	return found, err
}

func (r reader) Workers() ([]*mailroom.Worker, error) {
	var found []*mailroom.Worker
	err := r.query("read workers", nWorker, "SELECT "+workerColumns+" FROM worker ORDER BY id", nil,
		func(row []any) (bool, error) {
			w, err := scanWorker(row)
			found = append(found, w)
			return true, err
		})
	return found, err
}

// DueAgents steps from one agent to the next, however many threads each has.
func (r reader) DueAgents() ([]string, error) {
	var names []string
	for from := ""; ; {
		more := false
		err := r.query("read agents", 1, dueAgentFrom, []any{from}, func(row []any) (bool, error) {
			c := columns{row: row}
			names = append(names, c.text())
			more = true
			return false, nil
		})
		if err != nil || !more {
			return names, err
		}
		from = names[len(names)-1] + "\x00" // the very next text
	}
}

const dueAgentFrom = `SELECT due_agent FROM thread WHERE due_at IS NOT NULL AND due_agent >= ?
	ORDER BY due_agent LIMIT 1`

// query is session.query with the refusals of the seam.
func (r reader) query(doing string, n int, text string, args []any, each func(row []any) (bool, error)) error {
	if err := r.session.query(r.ctx, n, text, args, each); err != nil {
		refused, _ := refusal(r.ctx, doing, err)
		return refused
	}
	return nil
}
