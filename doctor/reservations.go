package doctor

import (
	"mailroom/project"
	"mailroom/store"
)

// reservations checks that the rows of reservations are those that the log leaves open.
func (p *checker) reservations() error {
	rows, err := p.r.Reservations(store.ReservationQuery{Thread: p.t.ID})
	if err != nil {
		return err
	}
	for i, row := range rows {
		if fence := p.log.Reservations[row.ID]; fence != row.Fence && row.Fence >= p.log.First {
			p.bad(Reserve, "reservation %s has fence %d, but that entry does not make it", row.ID, row.Fence)
		}
		delete(p.log.Reservations, row.ID)
		for _, other := range rows[:i] {
			if project.Conflict(&row, &other, p.now) {
				p.bad(Reserve, "reservations %s of %s and %s of %s overlap", other.ID, other.Holder, row.ID, row.Holder)
			}
		}
	}
	for id, fence := range p.log.Reservations {
		p.bad(Reserve, "reservation %s, made by entry %d, has no row", id, fence)
	}
	return nil
}
