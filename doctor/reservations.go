package doctor

import (
	"mailroom"
)

// noted is an entry that belongs to no run.
func (s *story) noted(e mailroom.Entry) {
	if e.Run != "" || e.Attempt != 0 {
		s.bad(Log, "entry %d, %s, names run %s, and belongs to none", e.Seq, e.Kind, e.Run)
	}
	switch e.Kind {
	case mailroom.KindReserved:
		var body mailroom.Reservation
		s.decode(e, &body)
		if body.Fence != e.Seq {
			s.bad(Reserve, "entry %d takes reservation %s with fence %d", e.Seq, body.ID, body.Fence)
		}
		s.holds[body.ID] = e.Seq
	case mailroom.KindReleased, mailroom.KindLapsed:
		var body mailroom.ReservationEnd
		s.decode(e, &body)
		if s.holds[body.Reservation] == 0 && body.Fence >= s.first {
			s.bad(Reserve, "entry %d ends reservation %s, which was not taken", e.Seq, body.Reservation)
		}
		delete(s.holds, body.Reservation)
	}
}

// reservations: a row is there from the entry that takes it to the one that ends it.
func (p *patient) reservations() error {
	rows, err := p.r.Reservations(mailroom.ReservationQuery{Thread: p.t.ID})
	if err != nil {
		return err
	}
	for i, row := range rows {
		if fence := p.story.holds[row.ID]; fence != row.Fence && row.Fence >= p.story.first {
			p.bad(Reserve, "reservation %s has fence %d, where the log does not take it", row.ID, row.Fence)
		}
		delete(p.story.holds, row.ID)
		for _, other := range rows[:i] {
			if row.ConflictsWith(&other, p.now) {
				p.bad(Reserve, "reservations %s of %s and %s of %s hold what both name", other.ID, other.Holder, row.ID, row.Holder)
			}
		}
	}
	for id, fence := range p.story.holds {
		p.bad(Reserve, "reservation %s, taken by entry %d, is not there", id, fence)
	}
	return nil
}
