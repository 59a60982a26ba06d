package ledger

import (
	"maps"

	"mailroom"
)

// shares keep one owner from taking all slots of a worker. No owner gets more
// than its share while another has due work; what nobody else wants, anyone gets.
// A worker that has no free slot may still start one run of each owner that has
// none there, so that runs that do not end cannot keep the others waiting.
type shares struct {
	held  map[string]int // runs that the worker has, by owner; none is 0
	slots int            // of the worker, taken or free
}

// newShares are those of a worker that has free slots beside the held ones.
func newShares(held map[string]int, free int) *shares {
	s := &shares{held: map[string]int{}, slots: max(free, 0)}
	for owner, n := range held {
		if n > 0 {
			s.held[owner] = n
			s.slots += n
		}
	}
	return s
}

// limit is an owner's share: with n owners at work the n+1st part of the slots, so
// that there is room for one more, and at least one.
func (s *shares) limit() int { return max(1, s.slots/(len(s.held)+1)) }

// full reports whether an owner has its share.
func (s *shares) full(owner string) bool { return s.held[owner] >= s.limit() }

// add notes a run that was started.
func (s *shares) add(owner string) { s.held[owner]++ }

// remaining is what each owner may still get of most.
func (s *shares) remaining(most int) *mailroom.Share {
	return &mailroom.Share{Most: most, Held: maps.Clone(s.held)}
}
