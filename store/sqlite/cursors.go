package sqlite

import (
	"slices"
	"strings"

	"mailroom/store"
)

const (
	readCursors = "SELECT channel, identity, position, moved_at FROM cursor ORDER BY channel, identity LIMIT ?"
	cursorsFrom = `SELECT channel, identity, position, moved_at FROM cursor WHERE (channel, identity) > (?, ?)
		ORDER BY channel, identity LIMIT ?`
	cursorsOf   = "SELECT channel, identity, position, moved_at FROM cursor WHERE channel = ? ORDER BY identity LIMIT ?"
	cursorsWith = "SELECT channel, identity, position, moved_at FROM cursor WHERE channel = ? AND identity "
	dropCursor  = "DELETE FROM cursor WHERE channel = ? AND identity = ?"
	putCursor   = `INSERT INTO cursor (channel, identity, position, moved_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (channel, identity) DO UPDATE SET position = excluded.position, moved_at = excluded.moved_at`
)

func (r reader) Cursors(q store.CursorQuery) (found []store.Cursor, err error) {
	add := func(c *columns) (bool, error) {
		found = append(found, store.Cursor{Channel: c.Text(), Identity: c.Text(), Position: c.raw(), MovedAt: c.Time()})
		return true, nil
	}
	limit := int64(-1)
	if q.Limit > 0 {
		limit = int64(q.Limit)
	}
	switch {
	case q.After != store.CursorRef{}:
		err = r.query("read cursors", cursorsFrom, []any{q.After.Channel, q.After.Identity, limit}, add)
		return found, err
	case q.Channel == "":
		err = r.query("read cursors", readCursors, []any{limit}, add)
		return found, err
	case len(q.Identities) == 0:
		err = r.query("read cursors", cursorsOf, []any{q.Channel, limit}, add)
		return found, err
	}
	for args := range inLists(q.Identities) {
		if err := r.query("read cursors", cursorsWith+in(args), append([]any{q.Channel}, args...), add); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b store.Cursor) int { return strings.Compare(a.Identity, b.Identity) })
	return found, nil
}

func writeCursor(t *tx, row store.Cursor) error {
	return t.run(putCursor, row.Channel, row.Identity, orNull(row.Position), micros(row.MovedAt))
}

func removeCursor(t *tx, row store.Cursor) error { return t.run(dropCursor, row.Channel, row.Identity) }
