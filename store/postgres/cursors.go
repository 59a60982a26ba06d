package postgres

import (
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	putCursors = `INSERT INTO cursor (channel, identity, position, moved_at) SELECT channel, identity,
		nullif(position, ''::bytea), nullif(moved_at, 0)
		FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) u (channel, identity, position, moved_at)
		ORDER BY channel, identity
		ON CONFLICT (channel, identity) DO UPDATE SET position = excluded.position, moved_at = excluded.moved_at`
	dropCursors = `DELETE FROM cursor c USING unnest($1::text[], $2::text[]) u (channel, identity)
		WHERE c.channel = u.channel AND c.identity = u.identity`
)

// Cursors implements [store.Reader].
func (r reader) Cursors(q store.CursorQuery) ([]store.Cursor, error) {
	var s sqlstore.Select
	s.Add("SELECT channel, identity, position, moved_at FROM cursor")
	s.Equal("channel", q.Channel)
	if len(q.Identities) > 0 {
		s.Cond("identity = ANY (?::text[])", q.Identities)
		q.Limit = 0
	}
	if q.After != (store.CursorRef{}) {
		s.Cond("(channel, identity) > (?, ?)", q.After.Channel, q.After.Identity)
	}
	s.Add(" ORDER BY channel, identity")
	return list(r, "read cursors", &s, q.Limit, 0, func(c *columns) (store.Cursor, error) {
		return store.Cursor{Channel: c.Text(), Identity: c.Text(), Position: c.raw(), MovedAt: c.Time()}, nil
	})
}

func (w *writing) writeCursors(cursors []store.Cursor) {
	rows := lastOfEach(cursors, func(r store.Cursor) store.CursorRef {
		return store.CursorRef{Channel: r.Channel, Identity: r.Identity}
	})
	var channels, identities []string
	var positions [][]byte
	var moved []int64
	for _, r := range rows {
		channels, identities = append(channels, r.Channel), append(identities, r.Identity)
		positions, moved = append(positions, notNil(r.Position)), append(moved, micros(r.MovedAt))
	}
	if len(rows) > 0 {
		w.trip.add(nil, putCursors, channels, identities, positions, moved)
	}
}

func (w *writing) dropCursors(cursors []store.Cursor) {
	var channels, identities []string
	for _, r := range cursors {
		channels, identities = append(channels, r.Channel), append(identities, r.Identity)
	}
	if len(channels) > 0 {
		w.trip.add(nil, dropCursors, channels, identities)
	}
}
