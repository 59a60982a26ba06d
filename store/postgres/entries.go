package postgres

import (
	"math"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	entriesForward = `SELECT first_seq, last_seq, lines FROM entry
		WHERE thread = (SELECT key FROM thread WHERE id = $1) AND last_seq > $2 AND first_seq < $3::bigint
		ORDER BY last_seq LIMIT $4`

	// The first row is the one that contains Before - 1, or else the last one.
	entriesBackward = `SELECT first_seq, last_seq, lines FROM entry
		WHERE thread = (SELECT key FROM thread WHERE id = $1) AND last_seq > $2 AND last_seq <= coalesce(
			(SELECT min(last_seq) FROM entry
				WHERE thread = (SELECT key FROM thread WHERE id = $1) AND last_seq >= $3::bigint - 1), $3::bigint)
		ORDER BY last_seq DESC LIMIT $4`

	// Each row once, however many of its entries are wanted. It may end before a wanted entry or
	// begin behind it, if that does not exist.
	entriesAt = `SELECT w.id, e.first_seq, e.lines FROM (SELECT DISTINCT t.key, t.id,
			(SELECT e.last_seq FROM entry e WHERE e.thread = t.key AND e.last_seq >= u.seq
			ORDER BY e.last_seq LIMIT 1) AS last_seq
			FROM unnest($1::text[], $2::bigint[]) u (thread, seq) JOIN thread t ON t.id = u.thread) w
		JOIN entry e ON e.thread = w.key AND e.last_seq = w.last_seq`

	insertEntries = `INSERT INTO entry (thread, last_seq, first_seq, lines)
		SELECT ` + threadOf + `, u.last_seq, u.first_seq, u.lines
		FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[])
			u (thread, thread_id, last_seq, first_seq, lines)`
	dropPrefix = "SELECT drop_prefix($1, $2, $3)"
)

// entryRows are the rows of a page of entries. A row has the entries of one commit, often several.
const entryRows = 64

// entriesAt answers a query whose field At is set.
func (r reader) entriesAt(at []store.EntryRef) ([]mailroom.Entry, error) {
	threads, seqs, wanted := make([]string, len(at)), make([]int64, len(at)), map[store.EntryRef]bool{}
	for i, ref := range at {
		threads[i], seqs[i], wanted[ref] = ref.Thread, ref.Seq, true
	}
	var found []mailroom.Entry
	err := r.query("read entries", func(c *columns) error {
		some, err := format.PickEntries(c.Text(), c.Int64(), c.next(), wanted)
		found = append(found, some...)
		return err
	}, entriesAt, threads, seqs)
	return found, err
}

// Entries implements [store.Reader]. It reads pages until the limits are reached.
func (r reader) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	if len(q.At) > 0 {
		return r.entriesAt(q.At)
	}
	switch {
	case q.All != nil:
		return r.allEntries(q)
	case q.Search != nil:
		return nil, r.search(q.Search)
	}
	if q.Before == 0 {
		q.Before = math.MaxInt64
	}
	text := entriesForward
	if q.Backward {
		text = entriesBackward
	}
	var found []mailroom.Entry
	g, more := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}, true
	after, before := q.After, q.Before
	for page := entryRows; ; page *= 2 {
		rows := 0
		err := r.query("read entries", func(c *columns) error {
			rows++
			first, last, lines := c.Int64(), c.Int64(), c.next()
			if q.Backward {
				before = first
			} else {
				after = last
			}
			if !more {
				return nil
			}
			several, err := format.SplitEntries(lines, first, q)
			for _, e := range several {
				found = append(found, e)
				if more = g.Add(len(e.Raw)); !more {
					break
				}
			}
			return err
		}, text, q.Thread, after, before, int64(page))
		if err != nil || !more || rows < page {
			return found, err
		}
	}
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
		joined, err := format.AppendEntries(nil, list)
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
