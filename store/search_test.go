package store

import (
	"slices"
	"testing"
	"time"
)

// rowsOf answers windows from a sorted list of matching rows, and counts them. A window with more than most
// matches is refused, unless it is short.
func rowsOf(rows []int64, most int, windows *int) Windows {
	look := func(w Window, limit int) (found []Match, err error) {
		*windows++
		for _, row := range slices.Backward(rows) {
			if row >= w.Low && row < w.High {
				found = append(found, Match{Row: row})
			}
		}
		if w.Level > 0 && len(found) > most {
			return nil, ErrManyMatches
		}
		return found[:min(len(found), limit)], nil
	}
	return Windows{Look: look}
}

// skipping adds a Skip that knows the rows.
func skipping(w Windows, rows []int64) Windows {
	w.Skip = func(next Window, _ time.Duration) (Window, error) {
		at, _ := slices.BinarySearch(rows, next.High)
		switch {
		case at == 0:
			return Window{}, nil
		case rows[at-1] < next.Low:
			return WindowBelow(rows[at-1]+1, 0), nil
		}
		return next, nil
	}
	return w
}

func TestASearchFindsEveryRowOnce(t *testing.T) {
	const last = 20_000_000
	var dense []int64 // in the old part only
	for row := int64(3_000_000); row < 3_100_000; row += 10 {
		dense = append(dense, row)
	}
	for name, c := range map[string]struct {
		rows             []int64
		windows, skipped int // at most, without and with a store that skips windows
	}{
		"none":                        {nil, 20, 1},
		"the first and the last":      {[]int64{1, last}, 25, 3},
		"at the borders of windows":   {[]int64{1 << 13, 1<<13 + 1, 1 << 15, 1<<21 - 1, 1 << 21, 1<<23 + 1}, 60, 15},
		"many in one part of the old": {dense, 60, 40},
	} {
		check := func(of func(windows *int) Windows, most int) func(t *testing.T) {
			return func(t *testing.T) {
				windows := 0
				s := Search{Words: []string{"x"}, Limit: 1000, State: IndexState{Last: last}}
				var got []int64
				for {
					if err := s.Run(of(&windows)); err != nil {
						t.Fatal(err)
					}
					for _, m := range s.Found {
						got = append(got, m.Row)
					}
					if s.Next == 0 {
						break
					}
					s.Before = s.Next
				}
				if slices.Reverse(got); !slices.Equal(got, c.rows) {
					t.Errorf("found %d rows, want %d", len(got), len(c.rows))
				}
				if windows > most {
					t.Errorf("looked at %d windows, want at most %d", windows, most)
				}
			}
		}
		t.Run(name, check(func(n *int) Windows { return rowsOf(c.rows, 500, n) }, c.windows))
		t.Run(name+", skipping", check(func(n *int) Windows { return skipping(rowsOf(c.rows, 500, n), c.rows) }, c.skipped))
	}
}

func TestASearchWhoseBudgetIsUsedEndsAfterAWholeWindow(t *testing.T) {
	windows := 0
	s := Search{Words: []string{"x"}, Limit: 10, Budget: 1, State: IndexState{Last: 100_000}}
	for s.Before = 0; windows == 0 || s.Next != 0; s.Before = s.Next {
		before := windows
		if err := s.Run(rowsOf([]int64{5}, 10, &windows)); err != nil || windows != before+1 {
			t.Fatalf("looked at %d windows, %v; want one", windows-before, err)
		}
	}
	if len(s.Found) != 1 || s.Found[0].Row != 5 {
		t.Errorf("found %v at the end", s.Found)
	}
}
