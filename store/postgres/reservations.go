package postgres

import (
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	putReservations = `WITH w AS (INSERT INTO reservation (id, thread, fence, body) SELECT u.id, t.key, u.fence, u.body
		FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bytea[]) u (id, thread, fence, body)
		JOIN thread t ON t.id = u.thread ORDER BY u.id
		ON CONFLICT (id) DO UPDATE SET thread = excluded.thread, fence = excluded.fence, body = excluded.body
		RETURNING 1)` + checkRows
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

func (w *writing) writeReservations(reservations []store.Reservation) {
	rows := lastOfEach(reservations, func(r store.Reservation) string { return r.ID })
	var ids, threads []string
	var fences []int64
	var bodies [][]byte
	for i := range rows {
		ids, threads = append(ids, rows[i].ID), append(threads, rows[i].Thread)
		fences, bodies = append(fences, rows[i].Fence), append(bodies, format.AppendReservation(nil, &rows[i]))
	}
	if len(rows) > 0 {
		w.trip.add(nil, putReservations, len(rows), ids, threads, fences, bodies)
	}
}
