package tracker

import (
	"cmp"
	"slices"
)

// shelf holds issues in the order of their ids. Of those that came late only the
// ids were read; they are read when they are asked for.
type shelf struct {
	codec *codec
	order []*Issue
	byID  map[string]*Issue // nil: they are looked for in their order
	late  bool              // some may have come late
}

func newShelf(c *codec, room int) shelf {
	return shelf{codec: c, order: make([]*Issue, 0, room)}
}

// get returns nil if there is none.
func (s *shelf) get(id string) *Issue {
	it := s.look(id)
	if it != nil && it.late {
		s.codec.complete(&scanner{}, it)
	}
	return it
}

// has reports whether there is one, without reading it.
func (s *shelf) has(id string) bool { return s.look(id) != nil }

func (s *shelf) look(id string) *Issue {
	if s.byID != nil {
		return s.byID[id]
	}
	if at, has := s.place(id); has {
		return s.order[at]
	}
	return nil
}

// index is for who is about to get thousands: for a few it would take longer than
// it saves.
func (s *shelf) index() {
	if s.byID != nil {
		return
	}
	s.byID = make(map[string]*Issue, len(s.order))
	for _, it := range s.order {
		s.byID[it.ID] = it
	}
}

// all returns all of them. They must be kept in their order.
func (s *shelf) all() []*Issue {
	if s.late {
		InParts(len(s.order), func(from, to int) {
			var scan scanner
			for _, it := range s.order[from:to] {
				s.codec.complete(&scan, it)
			}
		})
		s.late = false
	}
	return s.order
}

// put adds an issue, or puts it in the place of the one with its id.
func (s *shelf) put(it *Issue) {
	if at := s.add(it); s.order[at] != it {
		s.order[at] = it
		s.added(it)
	}
}

// add adds an issue unless there is one with its id, and returns the place of the
// one that has it then.
func (s *shelf) add(it *Issue) (at int) {
	at, has := s.place(it.ID)
	if !has {
		s.order = slices.Insert(s.order, at, it)
		s.added(it)
	}
	return at
}

func (s *shelf) added(it *Issue) {
	s.late = s.late || it.late
	if s.byID != nil {
		s.byID[it.ID] = it
	}
}

func (s *shelf) drop(id string) {
	if at, has := s.place(id); has {
		s.order = slices.Delete(s.order, at, at+1)
		delete(s.byID, id)
	}
}

// place is where an id is, or would be: at the end, as they come in a file.
func (s *shelf) place(id string) (int, bool) {
	if last := len(s.order) - 1; last < 0 || s.order[last].ID < id {
		return last + 1, false
	}
	return slices.BinarySearchFunc(s.order, id, func(it *Issue, id string) int { return cmp.Compare(it.ID, id) })
}
