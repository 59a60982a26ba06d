package mailroom

import (
	"slices"
	"time"
)

// ReservationIndex are the reservations of one project by what transitions look them up
// with. They are a Project's, one at a time.
type ReservationIndex struct {
	rows  []*Reservation // by Fence
	ids   map[string]*Reservation
	names map[string][]*Reservation

	size, wildSize int // of all names, and of those with * or ?
}

// NewReservationIndex takes the rows of a project, all of them and by Fence.
func NewReservationIndex(rows []Reservation) *ReservationIndex {
	h := &ReservationIndex{ids: make(map[string]*Reservation, len(rows)), names: make(map[string][]*Reservation, len(rows))}
	for _, row := range rows {
		h.add(&row)
	}
	return h
}

// Len is how many there are, with those that have ended by themselves.
func (h *ReservationIndex) Len() int { return len(h.rows) }

func (h *ReservationIndex) add(r *Reservation) {
	h.rows = append(h.rows, r)
	h.ids[r.ID] = r
	h.names[r.Name] = append(h.names[r.Name], r)
	h.addSize(r, 1)
}

func (h *ReservationIndex) addSize(r *Reservation, sign int) {
	h.size += sign * len(r.Name)
	if hasWildcard(r.Name) {
		h.wildSize += sign * len(r.Name)
	}
}

// remove forgets some at once: one by one costs the square of them.
func (h *ReservationIndex) remove(ended []*Reservation) {
	gone := make(map[*Reservation]bool, len(ended))
	for _, r := range ended {
		gone[r] = true
		delete(h.ids, r.ID)
		h.addSize(r, -1)
	}
	isGone := func(r *Reservation) bool { return gone[r] }
	h.rows = slices.DeleteFunc(h.rows, isGone)
	for _, r := range ended {
		if left := slices.DeleteFunc(h.names[r.Name], isGone); len(left) > 0 {
			h.names[r.Name] = left
		} else {
			delete(h.names, r.Name)
		}
	}
}

// find is what an agent of a token holds under a name, or nil.
func (h *ReservationIndex) find(name, holder, owner string) *Reservation {
	for _, r := range h.names[name] {
		if r.belongsTo(holder, owner) {
			return r
		}
	}
	return nil
}

// comparison is what the names of a Reserve overlap, among the reservations of a
// project that were there when they were compared. A reservation never changes its
// name, so this holds for as long as the reservation is there.
type comparison struct {
	project int64 // key of the project's thread
	through int64 // fence of the last reservation that was compared
	ids     map[string]bool
}

// maxCompare bounds what a transition compares by itself, in bytes of names times
// words of sets: some milliseconds.
const maxCompare = 1 << 20

// NeedsCompare reports whether comparing the names with the project's reservations would
// keep other writes waiting: Compare it before.
func (p *Project) NeedsCompare(in *Reserve) bool {
	h := p.held
	work := (h.size-h.wildSize)*in.wilds.words + h.wildSize*in.all.words
	return work > maxCompare
}

// Compare finds out which of a project's reservations the names overlap, outside of
// the transaction: globs take time, and the transition compares only with what was
// reserved after it. in must be checked, rows are by Fence.
func (in *Reserve) Compare(project *Thread, rows []Reservation) {
	c := comparison{project: project.Key, ids: map[string]bool{}}
	for i := range rows {
		if in.overlap(rows[i].Name) {
			c.ids[rows[i].ID] = true
		}
		c.through = rows[i].Fence
	}
	in.compared = c
}

// overlap reports whether one of the names overlaps another.
func (in *Reserve) overlap(name string) bool {
	if hasWildcard(name) {
		return in.all.overlap(name)
	}
	return in.plain[name] || in.wilds.words > 0 && in.wilds.overlap(name)
}

// conflicts are the reservations of others that hold and cannot do so beside in, and
// those of them that refuse it: the first MaxConflicts of each.
func (p *Project) conflicts(in *Reserve, now time.Time) (found, refusing []Reservation) {
	for _, r := range p.held.rows {
		if len(refusing) == MaxConflicts || in.Advisory && len(found) == MaxConflicts {
			break
		}
		if !r.Live(now) || r.belongsTo(in.Holder, in.By.Name) || r.Shared && in.Shared {
			continue
		}
		known := in.compared.project == p.Key && p.Key != 0 && r.Fence <= in.compared.through
		if known && !in.compared.ids[r.ID] || !known && !in.overlap(r.Name) {
			continue
		}
		if len(found) < MaxConflicts {
			found = append(found, *r)
		}
		if !in.Advisory && !r.Advisory {
			refusing = append(refusing, *r)
		}
	}
	return found, refusing
}

// tally adds up what the limits of a project are about.
type tally struct{ all, size, wilds, wildSize int }

func (t *tally) add(name, reason string) {
	t.all++
	t.size += len(name) + len(reason)
	if hasWildcard(name) {
		t.wilds++
		t.wildSize += len(name)
	}
}

// AddedBytes is how many bytes the names have that in takes and the agent does not hold:
// 0 if all of them are renewed.
func (p *Project) AddedBytes(in *Reserve, now time.Time) (bytes int) {
	for _, name := range in.Names {
		if r := p.held.find(name, in.Holder, in.By.Name); r == nil || !r.Live(now) {
			bytes += len(name) + len(in.Reason)
		}
	}
	return bytes
}

// checkLimits refuses more than a project can have: a new name is compared with all that
// there are.
func (p *Project) checkLimits(in *Reserve, now time.Time) error {
	var t tally
	for _, r := range p.held.rows {
		if r.Live(now) {
			t.add(r.Name, r.Reason)
		}
	}
	before := t
	for _, name := range in.Names {
		if r := p.held.find(name, in.Holder, in.By.Name); r == nil || !r.Live(now) {
			t.add(name, in.Reason)
		}
	}
	switch {
	case t == before:
		return nil // all of them are renewed
	case t.all > MaxReservations || t.wilds > MaxWild:
		return Errorf(CodeTooLarge, "a project has at most %d reservations, %d of them with * or ?: release some", MaxReservations, MaxWild)
	case t.size > MaxHeldSize || t.wildSize > MaxHeldWildSize:
		return Errorf(CodeTooLarge, "the reservations of a project have at most %d bytes of names and reasons, %d of them in names with * or ?: release some", MaxHeldSize, MaxHeldWildSize)
	}
	return nil
}
