package tracker

import (
	"cmp"
	"slices"
)

// shelf holds issues in the order of their ids, and finds each at once. Of those
// that came late only the ids were read; they are read when they are asked for.
type shelf struct {
	codec *codec
	order []*Issue
	byID  map[string]*Issue
	late  bool // some may have come late
}

func newShelf(c *codec, room int) shelf {
	return shelf{codec: c, order: make([]*Issue, 0, room), byID: make(map[string]*Issue, room)}
}

// get returns nil if there is none.
func (s *shelf) get(id string) *Issue {
	it := s.byID[id]
	s.codec.complete(it)
	return it
}

// has reports whether there is one, without reading it.
func (s *shelf) has(id string) bool { return s.byID[id] != nil }

// all returns all of them. They must be kept in their order.
func (s *shelf) all() []*Issue {
	if s.late {
		inParts(len(s.order), func(from, to int) {
			for _, it := range s.order[from:to] {
				s.codec.complete(it)
			}
		})
		s.late = false
	}
	return s.order
}

// put adds an issue, or puts it in the place of the one with its id.
func (s *shelf) put(it *Issue) {
	s.late = s.late || it.late
	switch last := len(s.order) - 1; {
	case last < 0 || s.order[last].ID < it.ID: // as they come in a file
		s.order = append(s.order, it)
	default:
		at, has := s.place(it.ID)
		if has {
			s.order[at] = it
		} else {
			s.order = slices.Insert(s.order, at, it)
		}
	}
	s.byID[it.ID] = it
}

func (s *shelf) drop(id string) {
	if at, has := s.place(id); has {
		s.order = slices.Delete(s.order, at, at+1)
		delete(s.byID, id)
	}
}

func (s *shelf) place(id string) (int, bool) {
	return slices.BinarySearchFunc(s.order, id, func(it *Issue, id string) int { return cmp.Compare(it.ID, id) })
}
