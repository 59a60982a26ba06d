package project

import (
	"slices"
	"time"

	"mailroom"
	"mailroom/store"
)

// Index holds the reservations of one project, indexed for its transitions. One Project
// uses it at a time.
type Index struct {
	rows  []*store.Reservation // rows, ordered by Fence
	ids   map[string]*store.Reservation
	names map[string][]*store.Reservation

	size, wildSize int // total size of all names, and of the names with * or ?
}

// NewIndex returns the index of all reservations of a project, ordered by Fence.
func NewIndex(rows []store.Reservation) *Index {
	h := &Index{ids: make(map[string]*store.Reservation, len(rows)),
		names: make(map[string][]*store.Reservation, len(rows))}
	for _, row := range rows {
		h.add(&row)
	}
	return h
}

// Len returns the number of reservations, expired ones included.
func (h *Index) Len() int { return len(h.rows) }

func (h *Index) add(r *store.Reservation) {
	h.rows = append(h.rows, r)
	h.ids[r.ID] = r
	h.names[r.Name] = append(h.names[r.Name], r)
	h.addSize(r, 1)
}

func (h *Index) addSize(r *store.Reservation, sign int) {
	h.size += sign * len(r.Name)
	if hasWildcard(r.Name) {
		h.wildSize += sign * len(r.Name)
	}
}

// remove removes several reservations in one pass; one by one the cost would be quadratic.
func (h *Index) remove(ended []*store.Reservation) {
	gone := make(map[*store.Reservation]bool, len(ended))
	for _, r := range ended {
		gone[r] = true
		delete(h.ids, r.ID)
		h.addSize(r, -1)
	}
	isGone := func(r *store.Reservation) bool { return gone[r] }
	h.rows = slices.DeleteFunc(h.rows, isGone)
	for _, r := range ended {
		if left := slices.DeleteFunc(h.names[r.Name], isGone); len(left) > 0 {
			h.names[r.Name] = left
		} else {
			delete(h.names, r.Name)
		}
	}
}

// find returns the reservation of a name by an agent and token, or nil.
func (h *Index) find(name, holder, owner string) *store.Reservation {
	for _, r := range h.names[name] {
		if belongsTo(r, holder, owner) {
			return r
		}
	}
	return nil
}

// comparison lists the reservations of a project that overlap the names of a Reserve, among the reservations that
// existed when the comparison was made. It stays valid, because the names of reservations never change.
type comparison struct {
	project int64 // key of the project's thread
	through int64 // fence of the last reservation that was compared
	ids     map[string]bool
}

// maxCompare bounds the comparisons of one transition, in bytes of names times words of a set: a
// few milliseconds.
const maxCompare = 1 << 20

// NeedsCompare reports whether comparing the names within the transition would delay other writes.
// The caller must call Compare first then.
func (p *State) NeedsCompare(in *Reserve) bool {
	h := p.held
	work := (h.size-h.wildSize)*in.wilds.words + h.wildSize*in.all.words
	return work > maxCompare
}

// Compare finds the reservations that the names overlap, outside of the transaction, because globs
// are slow to compare. The transition then compares only with later reservations. in must be
// checked; rows are ordered by Fence.
func (in *Reserve) Compare(project *mailroom.Thread, rows []store.Reservation) {
	c := comparison{project: project.Key, ids: map[string]bool{}}
	for i := range rows {
		if in.overlap(rows[i].Name) {
			c.ids[rows[i].ID] = true
		}
		c.through = rows[i].Fence
	}
	in.compared = c
}

// overlap reports whether name overlaps one of the requested names.
func (in *Reserve) overlap(name string) bool {
	if hasWildcard(name) {
		return in.all.overlap(name)
	}
	return in.plain[name] || in.wilds.words > 0 && in.wilds.overlap(name)
}

// conflicts returns the active reservations of other agents that overlap with the names in in, and separately those
// of them that refuse it, at most MaxConflicts of each.
func (p *State) conflicts(in *Reserve, now time.Time) (found, refusing []store.Reservation) {
	for _, r := range p.held.rows {
		if len(refusing) == MaxConflicts || in.Advisory && len(found) == MaxConflicts {
			break
		}
		if !r.Live(now) || belongsTo(r, in.Holder, in.By.Name) || r.Shared && in.Shared {
			continue
		}
		known := in.compared.project == p.Thread.Key && p.Thread.Key != 0 && r.Fence <= in.compared.through
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

// tally sums up what the limits of a project count.
type tally struct{ all, size, wilds, wildSize int }

func (t *tally) add(name, reason string) {
	t.all++
	t.size += len(name) + len(reason)
	if hasWildcard(name) {
		t.wilds++
		t.wildSize += len(name)
	}
}

// AddedBytes returns the size in bytes of the names that in adds to the agent's reservations. It is 0 if in only
// renews reservations.
func (p *State) AddedBytes(in *Reserve, now time.Time) (bytes int) {
	for _, name := range in.Names {
		if r := p.held.find(name, in.Holder, in.By.Name); r == nil || !r.Live(now) {
			bytes += len(name) + len(in.Reason)
		}
	}
	return bytes
}

// checkLimits returns an error if in exceeds the limits of a project.
func (p *State) checkLimits(in *Reserve, now time.Time) error {
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
		return nil // the request only renews reservations
	case t.all > MaxReservations || t.wilds > MaxWild:
		return mailroom.Errorf(mailroom.CodeTooLarge,
			"a project has at most %d reservations, %d of them with * or ?: release some", MaxReservations, MaxWild)
	case t.size > MaxHeldSize || t.wildSize > MaxHeldWildSize:
		return mailroom.Errorf(mailroom.CodeTooLarge,
			"the reservations of a project have at most %d bytes of names and reasons, %d of them in names with * or ?: release some", MaxHeldSize, MaxHeldWildSize)
	}
	return nil
}
