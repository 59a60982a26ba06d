package doctor

import (
	"mailroom"
	"mailroom/entry"
	"mailroom/project"
	"mailroom/store"
)

// threadEntry folds an entry that belongs to no run.
func (s *fold) threadEntry(e mailroom.Entry) {
	if e.Run != "" || e.Attempt != 0 {
		s.bad(Log, "entry %d, %s, names run %s but belongs to the thread", e.Seq, e.Kind, e.Run)
	}
	switch e.Kind {
	case entry.KindReserved:
		var body store.Reservation
		s.decode(e, &body)
		if body.Fence != e.Seq {
			s.bad(Reserve, "entry %d makes reservation %s with fence %d, which should be its seq", e.Seq, body.ID, body.Fence)
		}
		s.holds[body.ID] = e.Seq
	case entry.KindReleased, entry.KindLapsed:
		var body store.ReservationEnd
		s.decode(e, &body)
		if s.holds[body.Reservation] == 0 && body.Fence >= s.first {
			s.bad(Reserve, "entry %d ends reservation %s, which is not held", e.Seq, body.Reservation)
		}
		delete(s.holds, body.Reservation)
	}
}

// reservations checks that the rows are the reservations that the log leaves open.
func (p *checker) reservations() error {
	rows, err := p.r.Reservations(store.ReservationQuery{Thread: p.t.ID})
	if err != nil {
		return err
	}
	for i, row := range rows {
		if fence := p.fold.holds[row.ID]; fence != row.Fence && row.Fence >= p.fold.first {
			p.bad(Reserve, "reservation %s has fence %d, but that entry does not make it", row.ID, row.Fence)
		}
		delete(p.fold.holds, row.ID)
		for _, other := range rows[:i] {
			if project.Conflict(&row, &other, p.now) {
				p.bad(Reserve, "reservations %s of %s and %s of %s overlap", other.ID, other.Holder, row.ID, row.Holder)
			}
		}
	}
	for id, fence := range p.fold.holds {
		p.bad(Reserve, "reservation %s, made by entry %d, has no row", id, fence)
	}
	return nil
}
