package sqlite

import (
	"database/sql/driver"

	"mailroom"
)

const (
	readCursors = "SELECT channel, identity, position, moved_at FROM cursor ORDER BY channel, identity"
	cursorsOf   = "SELECT channel, identity, position, moved_at FROM cursor WHERE channel = ? ORDER BY identity"
	dropCursor  = "DELETE FROM cursor WHERE channel = ? AND identity = ?"
	putCursor   = `INSERT INTO cursor (channel, identity, position, moved_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (channel, identity) DO UPDATE SET position = excluded.position, moved_at = excluded.moved_at`
)

func (r reader) Cursors(channel string) ([]mailroom.Cursor, error) {
	text, args := readCursors, []any(nil)
	if channel != "" {
		text, args = cursorsOf, []any{channel}
	}
	var found []mailroom.Cursor
	err := r.query("read cursors", text, args, func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		found = append(found, mailroom.Cursor{Channel: c.text(), Identity: c.text(), Position: c.raw(), MovedAt: c.time()})
		return true, c.err
	})
	return found, err
}

func (t *tx) writeCursor(row *mailroom.Cursor) error {
	_, err := t.exec(putCursor, row.Channel, row.Identity, orNull(row.Position), micros(row.MovedAt))
	return err
}
