package tracker

import (
	"cmp"
	"slices"
)

// issueSet holds issues in the order of their ids. Of those that came late only the
// ids were read; they are read when they are asked for.
type issueSet struct {
	codec *codec
	order []*Issue
	byID  map[string]*Issue // nil: they are looked for in their order
	lazy  bool              // some may have come late
}

func newIssueSet(c *codec, room int) issueSet {
	return issueSet{codec: c, order: make([]*Issue, 0, room)}
}

// get returns nil if there is none.
func (s *issueSet) get(id string) *Issue {
	it := s.lookup(id)
	if it != nil && it.lazy {
		s.codec.complete(&scanner{}, it)
	}
	return it
}

// has reports whether there is one, without reading it.
func (s *issueSet) has(id string) bool { return s.lookup(id) != nil }

func (s *issueSet) lookup(id string) *Issue {
	if s.byID != nil {
		return s.byID[id]
	}
	if at, has := s.search(id); has {
		return s.order[at]
	}
	return nil
}

// index is for who is about to get thousands: for a few it would take longer than
// it saves.
func (s *issueSet) index() {
	if s.byID != nil {
		return
	}
	s.byID = make(map[string]*Issue, len(s.order))
	for _, it := range s.order {
		s.byID[it.ID] = it
	}
}

// all returns all of them. They must be kept in their order.
func (s *issueSet) all() []*Issue {
	if s.lazy {
		InParts(len(s.order), func(from, to int) {
			var scan scanner
			for _, it := range s.order[from:to] {
				s.codec.complete(&scan, it)
			}
		})
		s.lazy = false
	}
	return s.order
}

// put adds an issue, or puts it in the place of the one with its id.
func (s *issueSet) put(it *Issue) {
	if at := s.add(it); s.order[at] != it {
		s.order[at] = it
		s.onPut(it)
	}
}

// add adds an issue unless there is one with its id, and returns the place of the
// one that has it then.
func (s *issueSet) add(it *Issue) (at int) {
	at, has := s.search(it.ID)
	if !has {
		s.order = slices.Insert(s.order, at, it)
		s.onPut(it)
	}
	return at
}

func (s *issueSet) onPut(it *Issue) {
	s.lazy = s.lazy || it.lazy
	if s.byID != nil {
		s.byID[it.ID] = it
	}
}

func (s *issueSet) drop(id string) {
	if at, has := s.search(id); has {
		s.order = slices.Delete(s.order, at, at+1)
		delete(s.byID, id)
	}
}

// search is where an id is, or would be: at the end, as they come in a file.
func (s *issueSet) search(id string) (int, bool) {
	if last := len(s.order) - 1; last < 0 || s.order[last].ID < id {
		return last + 1, false
	}
	return slices.BinarySearchFunc(s.order, id, func(it *Issue, id string) int { return cmp.Compare(it.ID, id) })
}
