package storetest

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
)

func reservationCases() []testCase {
	in := func(thread, id string, fence int64) store.Reservation {
		return store.Reservation{ID: id, Thread: thread, Name: "n", Fence: fence,
			ExpiresAt: base().Add(time.Duration(fence) * time.Second)}
	}
	threads := []*mailroom.Thread{thread("t"), thread("u")}
	return []testCase{
		{"round trip", func(t *testing.T, s *handle) {
			zero, full := store.Reservation{ID: "a", Thread: "t"}, filled[store.Reservation](1)
			full.Thread = "t"
			s.write(&store.Changes{Threads: []*mailroom.Thread{thread("t")}, Reservations: []store.Reservation{zero, full}})
			want := []store.Reservation{zero, full}
			wantSame(t, "reservations", s.everything().Reserved, want)
			s.update(func(tx store.Tx) {
				wantSame(t, "in a transaction", get(tx.Reservations(store.ReservationQuery{Thread: "t"}))(t), want)
			})
		}},
		{"are ordered by thread and fence, and dropped by id", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Threads: threads, Reservations: []store.Reservation{in("u", "x", 1), in("t", "b", 2),
				in("t", "c", 1)}},
				&store.Changes{Reservations: []store.Reservation{in("t", "b", 3), in("t", "a", 4)}})
			want := []store.Reservation{in("t", "c", 1), in("t", "b", 3), in("t", "a", 4), in("u", "x", 1)}
			wantSame(t, "all", s.everything().Reserved, want)
			s.view(func(r store.Reader) {
				wantSame(t, "those of a thread", get(r.Reservations(store.ReservationQuery{Thread: "t"}))(t), want[:3])
				for _, q := range []store.ReservationQuery{{ID: "b"}, {ID: "b", Thread: "t"}} {
					wantSame(t, "one", get(r.Reservations(q))(t), want[1:2])
				}
				for _, q := range []store.ReservationQuery{{ID: "none"}, {ID: "b", Thread: "u"}} {
					wantSame(t, "none", get(r.Reservations(q))(t), []store.Reservation(nil))
				}
				wantSame(t, "those of none", get(r.Reservations(store.ReservationQuery{Thread: "none"}))(t),
					[]store.Reservation(nil))
			})
			s.write(&store.Changes{DropReservations: []string{"c", "none", "a"},
				Reservations: []store.Reservation{in("t", "a", 9)}})
			wantSame(t, "after a drop", s.everything().Reserved,
				[]store.Reservation{in("t", "b", 3), in("t", "a", 9), in("u", "x", 1)})
			s.write(&store.Changes{DropThreads: []string{"t"}})
			wantSame(t, "after their thread went", s.everything().Reserved, []store.Reservation{in("u", "x", 1)})
		}},
		{"belong to an existing thread", func(t *testing.T, s *handle) {
			err := s.Update(t.Context(), func(tx store.Tx) error {
				return tx.Write(&store.Changes{Reservations: []store.Reservation{in("none", "a", 1)}})
			})
			wantCode(t, err, mailroom.CodeInternal)
		}},
	}
}
