package tracker

import (
	"cmp"
	"slices"
)

// issueSet holds issues sorted by id. Lazily read issues are completed on access.
type issueSet struct {
	codec *codec
	order []*Issue
	byID  map[string]*Issue // nil: lookup uses binary search in order
	lazy  bool              // some issues may be incomplete
}

func newIssueSet(c *codec, room int) issueSet {
	return issueSet{codec: c, order: make([]*Issue, 0, room)}
}

// get returns the issue with this id, or nil.
func (s *issueSet) get(id string) *Issue {
	it := s.lookup(id)
	if it != nil && it.lazy {
		s.codec.complete(&scanner{}, it)
	}
	return it
}

// has reports whether an issue exists. It does not complete an issue that was read lazily.
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

// index builds byID. Building the map is only worth it before thousands of lookups.
func (s *issueSet) index() {
	if s.byID != nil {
		return
	}
	s.byID = make(map[string]*Issue, len(s.order))
	for _, it := range s.order {
		s.byID[it.ID] = it
	}
}

// all completes and returns all issues. The caller must not reorder them.
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

// put adds an issue or replaces the one with the same id.
func (s *issueSet) put(it *Issue) {
	if at := s.add(it); s.order[at] != it {
		s.order[at] = it
		s.onPut(it)
	}
}

// add inserts an issue unless the set has an issue with its id. It returns the position of that id.
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

// search returns the position of an id, or where it would be inserted. It checks the end first,
// because a file is read in order.
func (s *issueSet) search(id string) (int, bool) {
	if last := len(s.order) - 1; last < 0 || s.order[last].ID < id {
		return last + 1, false
	}
	return slices.BinarySearchFunc(s.order, id, func(it *Issue, id string) int { return cmp.Compare(it.ID, id) })
}
