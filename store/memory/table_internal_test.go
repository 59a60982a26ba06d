package memory

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// TestCopiesOfATableStayApart changes tables and copies of them at random, from no row to more than the shards are
// made for and back, and compares each with a map.
func TestCopiesOfATableStayApart(t *testing.T) {
	type copied struct {
		table table[int, int]
		want  map[int]int
	}
	random := rand.New(rand.NewPCG(1, 2))
	last := copied{newTable[int, int](), map[int]int{}}
	var old []copied // none is modified any more
	for step := range 400 {
		old = append(old, last)
		from := old[len(old)-1-random.IntN(min(len(old), 3))] // as a fork, which goes on from the same rows
		last = copied{from.table.share(), maps.Clone(from.want)}
		grows := step < 250
		for range random.IntN(12) {
			if k := random.IntN(1000); grows || k%4 == 0 {
				last.table.put(k, step)
				last.want[k] = step
			}
			if len(last.want) > 0 && !grows {
				for k := range last.table.all() { // drops while it iterates
					if random.IntN(50) == 0 {
						last.table.drop(k)
						delete(last.want, k)
					}
				}
			}
		}
		last.table.drop(-1)
	}
	most, least := 0, mostShards
	for i, c := range append(old, last) {
		most, least = max(most, len(c.table.shards)), min(least, len(c.table.shards))
		if got := maps.Collect(c.table.all()); !maps.Equal(got, c.want) || c.table.rows != len(c.want) {
			t.Fatalf("copy %d has the rows %v and counts %d, want %v", i, got, c.table.rows, c.want)
		}
		for k := range 1000 {
			v, ok := c.table.get(k)
			if want, has := c.want[k]; v != want || ok != has {
				t.Fatalf("copy %d has %d, %t for the key %d, want %d, %t", i, v, ok, k, want, has)
			}
		}
	}
	if least != 0 || most != mostShards {
		t.Errorf("tables had %d to %d shards, want 0 to %d", least, most, mostShards)
	}
}
