package sqlite

import (
	"cmp"
	"slices"
	"strings"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	insertThread = `INSERT INTO thread (agent, due_at, due_agent, due_priority, due_alone, due_owner, body,
		deliver_to, deleted, key, id, owner, entry_row, entry_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// No UPDATE sets the id of a row or the agent of a run. SQLite opens and rewrites the index of
	// every column that a statement sets, even to the same value, so each statement sets only what
	// may differ.
	updateThread = `UPDATE thread SET agent = ?, due_at = ?, due_agent = ?, due_priority = ?,
		due_alone = ?, due_owner = ?, body = ?, deliver_to = ?, deleted = ?` + movesEnd
	moveThread = `UPDATE thread SET due_at = ?, due_agent = ?, due_priority = ?,
		due_alone = ?, due_owner = ?, body = ?` + movesEnd
	touchThread = "UPDATE thread SET body = ?" + movesEnd

	// movesEnd ends an update of a thread: the end of its log changes only with entries.
	movesEnd = ", entry_row = coalesce(?, entry_row), entry_seq = coalesce(?, entry_seq) WHERE key = ?"

	threadsWith = "SELECT t.key, t.body, t.entry_row, t.entry_seq FROM thread t WHERE " // … IN list

	dropThreadPartials = `DELETE FROM partial WHERE run IN
		(SELECT key FROM run WHERE thread = (SELECT key FROM thread WHERE id = ?))`
	dropThreadTickets = "DELETE FROM ticket WHERE thread = (SELECT key FROM thread WHERE id = ?)"
	dropThreadKeys    = "DELETE FROM submit_key WHERE thread = (SELECT key FROM thread WHERE id = ?)"
	dropThreadHolds   = "DELETE FROM reservation WHERE thread = (SELECT key FROM thread WHERE id = ?)"
	dropThreadRuns    = "DELETE FROM run WHERE thread = (SELECT key FROM thread WHERE id = ?)"
	dropThread        = "DELETE FROM thread WHERE id = ?"
)

const threadsFrom = threadsWith + "t.id > ? ORDER BY t.id"

// maxSeen bounds the map of rows that a transaction reuses from the previous one.
const maxSeen = 1024

// bindThread appends the values of insertThread and updateThread up to the body.
func (s *Store) bindThread(args []value, t *mailroom.Thread) []value {
	args = append(args, textValue(t.Agent))
	switch {
	case t.Worker != "":
		args = append(args, intValue(endOfClaim(t)), textValue(claimPrefix+t.Worker), intValue(0), intValue(0), value{})
	case t.Due.At.IsZero():
		args = append(args, value{}, value{}, value{}, value{}, value{})
	default:
		args = append(args, intValue(t.Due.At.UnixMicro()), textValue(t.Due.Agent), intValue(int64(t.Due.Priority)),
			bit(t.Due.LastAttempt), dueOwner(t))
	}
	s.body = format.AppendThread(s.body[:0], t)
	return append(args, blobValue(s.body))
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

// forgetRows clears the rows seen by the previous transaction.
func (s *Store) forgetRows() {
	if s.seen == nil || len(s.seen) > maxSeen {
		s.seen = make(map[int64]threadRow)
	}
	clear(s.seen)
}

// threadUpdate returns the cheapest statement that updates a thread's row, and its values among
// those of updateThread: only the columns that differ from the row that the transaction has seen.
func (s *Store) threadUpdate(t *mailroom.Thread, args []value) (text string, _ []value) {
	const agent, body, more = 0, 6, 7 // positions in args
	old, known := s.seen[t.Key]
	switch {
	case !known || old.agent != t.Agent || old.deliverTo != t.DeliverTo || old.deleted == t.DeletedAt.IsZero():
		return updateThread, args
	case old.worker != t.Worker || old.due != t.Due:
		return moveThread, args[agent+1 : more]
	}
	return touchThread, args[body:more]
}

// moreOfThread appends the values of the columns that follow the body.
func moreOfThread(args []value, t *mailroom.Thread) []value {
	var deleted value
	if !t.DeletedAt.IsZero() {
		deleted = intValue(1)
	}
	return append(args, orNull(t.DeliverTo), deleted)
}

// dueOwner returns the value of the column that groups due threads by owner: the owner if the thread is due for an
// agent, else NULL.
func dueOwner(t *mailroom.Thread) value {
	if t.Due.Agent == "" {
		return value{}
	}
	return textValue(t.Owner)
}

// scanThread decodes the key and the body.
func scanThread(c *columns) (*mailroom.Thread, error) {
	t := &mailroom.Thread{Key: c.Int64()}
	return t, format.ParseThread(c.body(), t)
}

func (r reader) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	switch {
	case len(q.IDs) > 0:
		return r.threadsByID(q)
	case q.OnePerAgent:
		return r.dueEach()
	case q.Worker != "":
		return threadsOfWorker(r, q)
	case q.Prefix != "":
		return r.threadsUnder(q)
	case (q.Owner != "" || q.Agent != "") && q.DeliverTo == "" && !q.Deleted:
		return threadsOfGroups(r, q)
	}
	var s sqlstore.Select
	s.Add("SELECT t.key, t.body FROM thread t")
	s.Equal("t.agent", q.Agent)
	s.Equal("t.owner", q.Owner)
	s.Equal("t.deliver_to", q.DeliverTo)
	if q.Deleted {
		s.Cond("t.deleted = 1")
	}
	s.ByKey("t.key", q.From, q.Oldest)
	var found []*mailroom.Thread
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	err := r.query("read threads", s.Text(), s.Args(), func(c *columns) (bool, error) {
		t, err := scanThread(c)
		if err != nil || t.DeletedAt.IsZero() == q.Deleted {
			return true, err
		}
		found = append(found, t)
		return g.Add(c.size), nil
	})
	return found, err
}

// threadsUnder reads the threads whose ids have a prefix, which are adjacent in the index of ids.
func (r reader) threadsUnder(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	var found []*mailroom.Thread
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	read := func(c *columns) (bool, error) {
		t, err := scanThread(c)
		switch {
		case err != nil || !strings.HasPrefix(t.ID, q.Prefix):
			return false, err
		case !t.DeletedAt.IsZero():
			return true, nil
		}
		found = append(found, t)
		return g.Add(c.size), nil
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
		err := lookUp(r, "read threads", threadsWith+"t.id "+in(args), args, func(c *columns) (bool, error) {
			t, err := scanThread(c)
			if err == nil && selects(q, t) {
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

// selects reports whether q selects a thread, but for its IDs.
func selects(q store.ThreadQuery, t *mailroom.Thread) bool {
	switch {
	case t.DeletedAt.IsZero() == q.Deleted,
		q.DeliverTo != "" && t.DeliverTo != q.DeliverTo,
		q.Worker != "" && t.Worker != q.Worker,
		q.Agent != "" && t.Agent != q.Agent,
		q.Owner != "" && t.Owner != q.Owner,
		q.From != 0 && q.Oldest && t.Key <= q.From,
		q.From != 0 && !q.Oldest && t.Key >= q.From:
		return false
	}
	return true
}

func (t *tx) writeThread(w *written) (err error) {
	row := w.row
	args := moreOfThread(t.store.bindThread(t.store.args[:0], row), row)
	t.store.args = args
	if row.Key == 0 {
		t.given.thread++
		row.Key = t.given.thread
		t.tally(sqlstore.TalliedThread, row.Owner, "", 1)
		t.note(row, w.last)
		_, err := execRow(t, insertThread, append(args, intValue(row.Key), textValue(row.ID), textValue(row.Owner),
			intValue(w.last.row), intValue(w.last.seq)))
		return err
	}
	var last, seq value
	if w.last.row > 0 {
		if w.end, err = readEnd(t, row.Key); err != nil {
			return err
		}
		last, seq = intValue(w.last.row), intValue(w.last.seq)
		t.store.memo.ends[row.Key] = w.last
	}
	text, args := t.store.threadUpdate(row, args)
	t.store.noteRow(row)
	res, err := execRow(t, text, append(args, last, seq, intValue(row.Key)))
	return wrote(res, err, "thread", row.ID, row.Key)
}

// removeThread drops a thread behind the rows that refer to it.
func removeThread(t *tx, id string) error {
	if err := dropAllEntries(t, id); err != nil {
		return err
	}
	for _, text := range [...]string{
		dropThreadPartials, dropThreadTickets, dropThreadKeys, dropThreadHolds, dropThreadRuns,
		dropThreadBlobs, dropThreadPieces, dropThread,
	} {
		if _, err := t.exec(text, id); err != nil {
			return err
		}
	}
	t.store.memo.dropThread(id)
	return nil
}
