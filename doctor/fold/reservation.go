package fold

import (
	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// threadEntry folds an entry that belongs to no run.
func (l *Log) threadEntry(e mailroom.Entry) {
	if e.Run != "" || e.Attempt != 0 {
		l.bad(RuleTransition, "", "entry %d, %s, names run %s but belongs to the thread", e.Seq, e.Kind, e.Run)
	}
	switch e.Kind {
	case entry.KindReserved:
		var body store.Reservation
		l.decode(e, &body)
		if body.Fence != e.Seq {
			l.bad(RuleReservation, "", "entry %d makes reservation %s with fence %d, which should be its seq", e.Seq, body.ID,
				body.Fence)
		}
		l.Reservations[body.ID] = e.Seq
	case entry.KindReleased, entry.KindLapsed:
		var body store.ReservationEnd
		l.decode(e, &body)
		if l.Reservations[body.Reservation] == 0 && body.Fence >= l.First {
			l.bad(RuleReservation, "", "entry %d ends reservation %s, which is not held", e.Seq, body.Reservation)
		}
		delete(l.Reservations, body.Reservation)
	}
}
