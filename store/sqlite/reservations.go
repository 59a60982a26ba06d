package sqlite

import (
	"mailroom/store"
)

const (
	reservationColumns = `SELECT v.id, t.id, v.name, v.holder, v.owner, v.shared, v.advisory, v.reason, v.fence,
		v.taken_at, v.expires_at
		FROM reservation v CROSS JOIN thread t ON t.key = v.thread`
	readReservations = reservationColumns + " ORDER BY t.id, v.fence, v.id"
	// The reservations of a project belong to one thread, so they need no sort by thread.
	reservationsOf = reservationColumns + " WHERE v.thread = (SELECT key FROM thread WHERE id = ?) ORDER BY v.fence, v.id"
	oneReservation = reservationColumns + " WHERE v.id = ?"

	dropReservation = "DELETE FROM reservation WHERE id = ?"
	putReservation  = `INSERT INTO reservation (name, holder, owner, shared, advisory, reason, fence, taken_at,
		expires_at, id, thread)
		SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, key FROM thread WHERE id = ?
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, holder = excluded.holder, owner = excluded.owner,
		shared = excluded.shared,
		advisory = excluded.advisory, reason = excluded.reason, fence = excluded.fence, taken_at = excluded.taken_at,
		expires_at = excluded.expires_at,
		thread = excluded.thread`
)

func (r reader) Reservations(q store.ReservationQuery) ([]store.Reservation, error) {
	text, args := readReservations, []any(nil)
	switch {
	case q.ID != "":
		text, args = oneReservation, []any{q.ID}
	case q.Thread != "":
		text, args = reservationsOf, []any{q.Thread}
	}
	var found []store.Reservation
	err := r.query("read reservations", text, args, func(c *columns) (bool, error) {
		one := store.Reservation{
			ID: c.Text(), Thread: c.Text(), Name: c.Text(), Holder: c.Text(), Owner: c.Text(),
			Shared: c.bool(), Advisory: c.bool(),
			Reason: c.Text(), Fence: c.Int64(), TakenAt: c.Time(), ExpiresAt: c.Time(),
		}
		if q.Thread == "" || q.Thread == one.Thread {
			found = append(found, one)
		}
		return true, nil
	})
	return found, err
}

func writeReservation(t *tx, row store.Reservation) error {
	res, err := t.exec(putReservation, row.Name, row.Holder, row.Owner, bit(row.Shared), bit(row.Advisory), row.Reason,
		row.Fence, micros(row.TakenAt), micros(row.ExpiresAt), row.ID, row.Thread)
	return wrote(res, err, "thread", row.Thread, 0)
}
