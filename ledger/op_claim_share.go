package ledger

import (
	"maps"

	"mailroom/store"
)

// shares divides the slots of a worker fairly between owners. No owner gets more than its share
// while another owner has due runs; unused slots are free for all. A worker without a free slot may
// still start one run for each owner without one, so that runs that never end cannot block other
// owners.
type shares struct {
	held  map[string]int  // runs on the worker by owner, without zeros
	slots int             // slots of the worker, used and free
	spent map[string]bool // owners whose budget is spent: none of their runs starts
}

// newShares returns the shares of a worker with held runs by owner, and free slots.
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

// limit returns an owner's share: with n owners at work, one part in n+1 of the slots, which leaves
// room for another owner, and at least one.
func (s *shares) limit() int { return max(1, s.slots/(len(s.held)+1)) }

// full reports whether an owner has its share.
func (s *shares) full(owner string) bool { return s.spent[owner] || s.held[owner] >= s.limit() }

// barred reports whether no run of an owner starts.
func (s *shares) barred(owner string) bool { return s.spent[owner] }

// add counts a started run.
func (s *shares) add(owner string) { s.held[owner]++ }

// remaining returns how many more runs each owner may get, out of most.
func (s *shares) remaining(most int) *store.Share {
	held := maps.Clone(s.held)
	for owner := range s.spent {
		held[owner] = max(held[owner], most)
	}
	return &store.Share{Most: most, Held: held}
}

// first returns the share of a claim's first look at the store: all may have all n slots, except the barred owners.
func (s *shares) first(n int) *store.Share {
	if len(s.spent) == 0 {
		return nil
	}
	held := map[string]int{}
	for owner := range s.spent {
		held[owner] = n
	}
	return &store.Share{Most: n, Held: held}
}
