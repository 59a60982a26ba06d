package ledger

import (
	"maps"
	"testing"
)

func TestAnOwnersShareOfAWorkersSlots(t *testing.T) {
	for _, c := range []struct {
		name string
		held map[string]int
		free int
		most int
		full string // the owners a, b and c that have used their shares
	}{
		{"no runs", nil, 8, 8, ""},
		{"one owner with few runs", map[string]int{"a": 3}, 5, 4, ""},
		{"one owner with half the slots", map[string]int{"a": 4}, 4, 4, "a"},
		{"one owner with all slots", map[string]int{"a": 8}, 0, 4, "a"},
		{"two owners", map[string]int{"a": 6, "b": 2}, 1, 3, "a"},
		{"two owners with three runs each", map[string]int{"a": 3, "b": 3}, 3, 3, "ab"},
		{"one slot", nil, 1, 1, ""},
		{"one used slot", map[string]int{"a": 1}, 0, 1, "a"},
		{"more owners than slots", map[string]int{"a": 1, "b": 1}, 0, 1, "ab"},
		{"more runs than slots", map[string]int{"a": 8, "b": 1}, 0, 3, "a"},
		{"an owner without runs", map[string]int{"a": 4, "b": 0}, 4, 4, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := maps.Clone(c.held)
			s := newShares(c.held, c.free)
			if got := s.limit(); got != c.most {
				t.Errorf("got a share of %d, want %d", got, c.most)
			}
			full := ""
			for _, owner := range []string{"a", "b", "c"} {
				if s.full(owner) {
					full += owner
				}
			}
			if full != c.full {
				t.Errorf("owners without a free share: %q, want %q", full, c.full)
			}
			s.add("c")
			if !maps.Equal(before, c.held) {
				t.Errorf("newShares changed its argument to %v", c.held)
			}
		})
	}
}

// Every owner has a backlog; the first owner's is the oldest, and so on. Each ended run frees a slot for
// the oldest run that the shares admit.
func TestEveryOwnerWithABacklogGetsItsShare(t *testing.T) {
	for owners := 1; owners <= 9; owners++ {
		names := "abcdefghi"[:owners]
		s := newShares(map[string]int{"a": 64}, 0)
		for range 10 * 64 {
			ends := "a"
			for _, owner := range names {
				if s.held[string(owner)] > s.held[ends] {
					ends = string(owner)
				}
			}
			held := maps.Clone(s.held)
			held[ends]--
			s = newShares(held, 1)
			next := "a"
			for _, owner := range names {
				if !s.full(string(owner)) {
					next = string(owner)
					break
				}
			}
			s.add(next)
		}
		for _, owner := range names {
			if got := s.held[string(owner)]; got < 64/(owners+1) {
				t.Errorf("with %d owners, %c has %d slots, want at least %d", owners, owner, got, 64/(owners+1))
			}
		}
	}
}
