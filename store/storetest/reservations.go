package storetest

import (
	"testing"
	"time"

	"mailroom"
)

func reservationCases() []testCase {
	in := func(thread, id string, fence int64) mailroom.Reservation {
		return mailroom.Reservation{ID: id, Thread: thread, Name: "n", Fence: fence, ExpiresAt: base().Add(time.Duration(fence) * time.Second)}
	}
	threads := []*mailroom.Thread{thread("t"), thread("u")}
	return []testCase{
		{"round trip", func(t *testing.T, s *handle) {
			zero, full := mailroom.Reservation{ID: "a", Thread: "t"}, filled[mailroom.Reservation](1)
			full.Thread = "t"
			s.write(&mailroom.Changes{Threads: []*mailroom.Thread{thread("t")}, Reservations: []mailroom.Reservation{zero, full}})
			want := []mailroom.Reservation{zero, full}
			wantSame(t, "reservations", s.everything().Reserved, want)
			s.update(func(tx mailroom.Tx) {
				wantSame(t, "in a transaction", get(tx.Reservations(mailroom.ReservationQuery{Thread: "t"}))(t), want)
			})
		}},
		{"are ordered by thread and fence, and dropped by id", func(t *testing.T, s *handle) {
			s.write(&mailroom.Changes{Threads: threads, Reservations: []mailroom.Reservation{in("u", "x", 1), in("t", "b", 2), in("t", "c", 1)}},
				&mailroom.Changes{Reservations: []mailroom.Reservation{in("t", "b", 3), in("t", "a", 4)}})
			want := []mailroom.Reservation{in("t", "c", 1), in("t", "b", 3), in("t", "a", 4), in("u", "x", 1)}
			wantSame(t, "all", s.everything().Reserved, want)
			s.view(func(r mailroom.Reader) {
				wantSame(t, "those of a thread", get(r.Reservations(mailroom.ReservationQuery{Thread: "t"}))(t), want[:3])
				for _, q := range []mailroom.ReservationQuery{{ID: "b"}, {ID: "b", Thread: "t"}} {
					wantSame(t, "one", get(r.Reservations(q))(t), want[1:2])
				}
				for _, q := range []mailroom.ReservationQuery{{ID: "none"}, {ID: "b", Thread: "u"}} {
					wantSame(t, "none", get(r.Reservations(q))(t), []mailroom.Reservation(nil))
				}
				wantSame(t, "those of none", get(r.Reservations(mailroom.ReservationQuery{Thread: "none"}))(t), []mailroom.Reservation(nil))
			})
			s.write(&mailroom.Changes{DropReservations: []string{"c", "none", "a"}, Reservations: []mailroom.Reservation{in("t", "a", 9)}})
			wantSame(t, "after a drop", s.everything().Reserved, []mailroom.Reservation{in("t", "b", 3), in("t", "a", 9), in("u", "x", 1)})
			s.write(&mailroom.Changes{DropThreads: []string{"t"}})
			wantSame(t, "after their thread went", s.everything().Reserved, []mailroom.Reservation{in("u", "x", 1)})
		}},
		{"belong to an existing thread", func(t *testing.T, s *handle) {
			err := s.Update(t.Context(), func(tx mailroom.Tx) error {
				return tx.Write(&mailroom.Changes{Reservations: []mailroom.Reservation{in("none", "a", 1)}})
			})
			wantCode(t, err, mailroom.CodeInternal)
		}},
	}
}
