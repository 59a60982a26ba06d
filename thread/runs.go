package thread

import (
	"maps"
	"slices"

	"mailroom"
	"mailroom/store"
)

// Runs are the loaded and new runs of a thread, one value per run, with the loaded part of its
// queue.
type Runs struct {
	byID  map[string]*mailroom.Run
	queue queue

	changed   []*mailroom.Run // changed runs, in the order of their first change
	isChanged map[string]bool // changed runs by id
}

// Add adds a loaded run, unless a value for it exists.
func (s *Runs) Add(row *mailroom.Run) {
	if s.byID[row.ID] == nil {
		s.byID[row.ID] = row
	}
}

// SetQueue sets the first runs of set, as the store returned them. whole reports that set has no further runs.
func (s *Runs) SetQueue(set store.RunSet, rows []*mailroom.Run, whole bool) {
	w := &s.queue.ready
	if set == store.RunsScheduled {
		w = &s.queue.scheduled
	}
	w.whole, w.runs = whole, w.runs[:0]
	var last *mailroom.Run
	for _, row := range rows {
		last = row
		s.Add(row)
	}
	for _, r := range s.byID {
		if w.contains(r) && (whole || last != nil && !w.less(last, r)) {
			w.runs = append(w.runs, r)
		}
	}
	slices.SortFunc(w.runs, w.compare)
}

// Len returns the number of loaded and new runs.
func (s *Runs) Len() int { return len(s.byID) }

// NewInQueue counts the runs in the queue that the store does not have yet.
func (s *Runs) NewInQueue() int {
	n := 0
	for _, r := range s.changed {
		if r.Key == 0 && r.NeverStarted() {
			n++
		}
	}
	return n
}

// touch marks r as changed and moves it to its position in the queue.
func (s *Runs) touch(r *mailroom.Run) {
	s.byID[r.ID] = r
	s.queue.place(r)
	if s.isChanged[r.ID] {
		return
	}
	if s.isChanged == nil {
		s.isChanged = map[string]bool{}
	}
	s.isChanged[r.ID] = true
	s.changed = append(s.changed, r)
}

// trim drops the changes, and all runs except current, which may be nil, and the start of the queue. It returns
// false if the remaining runs are not worth keeping or would be incomplete.
func (s *Runs) trim(current *mailroom.Run) bool {
	s.changed = nil
	clear(s.isChanged)
	kept := s.queue.trim()
	if current != nil {
		kept = append(kept, current)
	}
	if slices.ContainsFunc(kept, func(r *mailroom.Run) bool { return r.Asked > 0 }) {
		return false // the loader loads tickets together with their run
	}
	maps.DeleteFunc(s.byID, func(_ string, r *mailroom.Run) bool { return !slices.Contains(kept, r) })
	return len(kept) > 0
}
