package postgres

import (
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	putReservations = `WITH w AS (INSERT INTO reservation (id, thread, fence, body) SELECT u.id, t.key, u.fence, u.body
		FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bytea[]) u (id, thread, fence, body) JOIN thread t ON t.id = u.thread ORDER BY u.id
		ON CONFLICT (id) DO UPDATE SET thread = excluded.thread, fence = excluded.fence, body = excluded.body RETURNING 1)` + checkRows
	dropReservations = "DELETE FROM reservation WHERE id = ANY ($1::text[])"
)

// Reservations implements [store.Reader].
func (r reader) Reservations(q store.ReservationQuery) ([]store.Reservation, error) {
	var s sqlstore.Select
	s.Add("SELECT v.body FROM reservation v JOIN thread t ON t.key = v.thread")
	s.Equal("v.id", q.ID)
	s.Equal("t.id", q.Thread)
	s.Add(" ORDER BY t.id, v.fence, v.id")
	return list(r, "read reservations", &s, 0, 0, func(c *columns) (v store.Reservation, err error) {
		return v, format.ParseReservation(c.Text(), &v)
	})
}
