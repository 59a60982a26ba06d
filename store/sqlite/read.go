package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// reader answers queries on one connection, in its open transaction.
type reader struct {
	ctx     context.Context
	session *session
	now     time.Time
}

// Now implements [store.Reader].
func (r reader) Now() time.Time { return r.now }

// sizeOf returns the size of the texts and blobs of a row.
func sizeOf(row []driver.Value) (size int) {
	for _, v := range row {
		switch v := v.(type) {
		case []byte:
			size += len(v)
		case string:
			size += len(v)
		}
	}
	return size
}

// first cuts list at limit; 0 is no limit.
func first[T any](list []T, limit int) []T {
	if limit > 0 && len(list) > limit {
		return list[:limit]
	}
	return list
}

func (r reader) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	switch {
	case len(q.IDs) > 0:
		return r.threadsByID(q)
	case q.OnePerAgent:
		return r.dueEach()
	case q.Prefix != "":
		return r.threadsUnder(q)
	}
	var s sqlstore.Select
	s.Add("SELECT t.key, t.body FROM thread t")
	s.Equal("t.worker", q.Worker)
	s.Equal("t.agent", q.Agent)
	s.Equal("t.owner", q.Owner)
	s.Equal("t.deliver_to", q.DeliverTo)
	if q.Deleted {
		s.Cond("t.deleted = 1")
	}
	s.ByKey("t.key", q.From, q.Oldest)
	var found []*mailroom.Thread
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	err := r.query("read threads", s.Text(), s.Args(), func(row []driver.Value) (bool, error) {
		t, err := scanThread(row)
		if err != nil || t.DeletedAt.IsZero() == q.Deleted {
			return true, err
		}
		found = append(found, t)
		return g.Add(sizeOf(row)), nil
	})
	return found, err
}

const threadsFrom = threadsWith + "t.id > ? ORDER BY t.id"

// threadsUnder reads the threads whose ids have a prefix, which are adjacent in the index of ids.
func (r reader) threadsUnder(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	var found []*mailroom.Thread
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	read := func(row []driver.Value) (bool, error) {
		t, err := scanThread(row)
		switch {
		case err != nil || !strings.HasPrefix(t.ID, q.Prefix):
			return false, err
		case !t.DeletedAt.IsZero():
			return true, nil
		}
		found = append(found, t)
		return g.Add(sizeOf(row)), nil
	}
	if q.After < q.Prefix { // the thread with exactly this id comes first
		err := r.query("read a thread", threadsWith+"t.id = ?", []any{q.Prefix}, read)
		if err != nil || sqlstore.Full(len(found), q.Limit) {
			return found, err
		}
	}
	return found, r.query("read threads", threadsFrom, []any{max(q.After, q.Prefix)}, read)
}

// threadsByID reads the rows with the ids of q, which are few.
func (r reader) threadsByID(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	var found []*mailroom.Thread
	for args := range inLists(sqlstore.Distinct(q.IDs)) {
		err := r.query("read threads", threadsWith+"t.id "+in(args), args, func(row []driver.Value) (bool, error) {
			t, err := scanThread(row)
			switch {
			case err != nil || t.DeletedAt.IsZero() == q.Deleted:
			case q.DeliverTo != "" && t.DeliverTo != q.DeliverTo:
			case q.Worker != "" && t.Worker != q.Worker:
			case q.Agent != "" && t.Agent != q.Agent:
			case q.Owner != "" && t.Owner != q.Owner:
			case q.From != 0 && q.Oldest && t.Key <= q.From:
			case q.From != 0 && !q.Oldest && t.Key >= q.From:
			default:
				found = append(found, t)
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b *mailroom.Thread) int {
		if q.Oldest {
			return cmp.Compare(a.Key, b.Key)
		}
		return cmp.Compare(b.Key, a.Key)
	})
	return first(found, q.Limit), nil
}

const (
	keysOf   = "SELECT key, digest, result, joined_seq FROM submit_key WHERE thread = (SELECT key FROM thread WHERE id = ?)"
	oneKey   = keysOf + " AND key = ?"
	keysFrom = keysOf + " AND key > ? ORDER BY key LIMIT ?"
)

func (r reader) Keys(q store.KeyQuery) ([]store.SubmitKey, error) {
	var found []store.SubmitKey
	add := func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		k := store.SubmitKey{Thread: q.Thread, Key: c.Text(), Digest: c.Text()}
		c.json(&k.Result)
		k.JoinedSeq = c.Int64()
		found = append(found, k)
		return true, c.err
	}
	if q.All {
		limit := int64(-1)
		if q.Limit > 0 {
			limit = int64(q.Limit)
		}
		return found, r.query("read submit keys", keysFrom, []any{q.Thread, q.After, limit}, add)
	}
	for _, key := range q.Keys {
		if err := r.query("read a submit key", oneKey, []any{q.Thread, key}, add); err != nil {
			return nil, err
		}
	}
	return found, nil
}

const partialsOf = `SELECT t.id, p.attempt, p.message, p.start, p.text
	FROM run r CROSS JOIN thread t ON t.key = r.thread CROSS JOIN partial p ON p.run = r.key
	WHERE r.id = ? ORDER BY p.start`

func (r reader) Partials(runs ...string) ([]store.Partial, error) {
	var found []store.Partial
	for _, run := range sqlstore.Distinct(runs) { // a list of ids would be sorted
		err := r.query("read partials", partialsOf, []any{run}, func(row []driver.Value) (bool, error) {
			c := columns{row: row}
			found = append(found, store.Partial{
				Thread: c.Text(), Run: run, Attempt: c.Int(), Message: c.Text(), Offset: c.Int(), Text: c.Text(),
			})
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (r reader) Workers() ([]*store.Worker, error) {
	var found []*store.Worker
	err := r.query("read workers", "SELECT "+workerColumns+" FROM worker ORDER BY id", nil,
		func(row []driver.Value) (bool, error) {
			w, err := scanWorker(row)
			found = append(found, w)
			return true, err
		})
	return found, err
}

// Agents implements [store.Reader].
func (r reader) Agents() (rows store.AgentRows, err error) {
	err = r.query("read definitions", "SELECT agent, version, body FROM definition ORDER BY agent, version", nil,
		func(row []driver.Value) (bool, error) {
			c := columns{row: row}
			rows.Definitions = append(rows.Definitions, store.Definition{Agent: c.Text(), Version: c.Text(), Body: c.raw()})
			return true, nil
		})
	if err == nil {
		rows.Pauses, err = readPauses(r)
	}
	return rows, err
}

func readPauses(r reader) (found []store.Pause, err error) {
	err = r.query("read pauses", "SELECT agent, by, reason, at, probe FROM pause ORDER BY agent", nil, func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		found = append(found, store.Pause{Agent: c.Text(), By: c.Text(), Reason: c.Text(), At: c.Time(), Probe: c.Time()})
		return true, c.err
	})
	return found, err
}

// dueEach steps from agent to agent, whatever the number of threads of each.
func (r reader) dueEach() ([]*mailroom.Thread, error) {
	var found []*mailroom.Thread
	for from := ""; ; {
		n := len(found)
		err := r.query("read due agents", dueAgentFrom, []any{from}, func(row []driver.Value) (bool, error) {
			t, err := scanThread(row)
			found = append(found, t)
			return false, err
		})
		if err != nil || len(found) == n {
			return found, err
		}
		from = found[n].Due.Agent + "\x00" // the next possible text
	}
}

const dueAgentFrom = `SELECT t.key, t.body FROM thread t WHERE t.due_at IS NOT NULL AND t.due_agent >= ?
	ORDER BY t.due_agent LIMIT 1`

// query is session.query with errors of the store's interface.
func (r reader) query(doing, text string, args []any, each func(row []driver.Value) (bool, error)) error {
	if err := r.session.query(r.ctx, text, args, each); err != nil {
		refused, _ := r.session.driver.refusal(r.ctx, doing, err)
		return refused
	}
	return nil
}
