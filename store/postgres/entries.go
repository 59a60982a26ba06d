package postgres

import (
	"math"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
)

const (
	entriesForward = `SELECT first_seq, last_seq, lines FROM entry
		WHERE thread = (SELECT key FROM thread WHERE id = $1) AND last_seq > $2 AND first_seq < $3::bigint ORDER BY last_seq LIMIT $4`

	// The first row is the one that contains Before - 1, or else the last one.
	entriesBackward = `SELECT first_seq, last_seq, lines FROM entry
		WHERE thread = (SELECT key FROM thread WHERE id = $1) AND last_seq > $2 AND last_seq <= coalesce(
			(SELECT min(last_seq) FROM entry
				WHERE thread = (SELECT key FROM thread WHERE id = $1) AND last_seq >= $3::bigint - 1), $3::bigint)
		ORDER BY last_seq DESC LIMIT $4`
)

// entryRows are the rows of a page of entries. A row has the entries of one commit, often several.
const entryRows = 64

// Entries implements [store.Reader]. It reads pages until the limits are reached.
func (r reader) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	if q.Before == 0 {
		q.Before = math.MaxInt64
	}
	text := entriesForward
	if q.Backward {
		text = entriesBackward
	}
	var found []mailroom.Entry
	g, more := gauge{limit: q.Limit, budget: q.Bytes}, true
	after, before := q.After, q.Before
	for page := entryRows; ; page *= 2 {
		rows := 0
		err := r.query("read entries", func(c *columns) error {
			rows++
			first, last, lines := c.int64(), c.int64(), c.next()
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
				if more = g.add(len(e.Raw)); !more {
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
