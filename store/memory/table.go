package memory

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
)

const (
	// A table with up to rowsPerShard rows has one shard. Once its shards have more rows than that on average, it
	// has shardGrowth times as many, until it has mostShards.
	rowsPerShard = 8
	shardGrowth  = 8
	mostShards   = 64
)

// table is a map with cheap copies: a copy shares its shards with the original, and each of the two
// copies a shard before its first change to it. Values are never modified in place, so the state of
// a View does not change.
//
// Most tables of a state are small or empty, and each Update copies all of them. So a copy costs the same for any
// number of rows: it shares even the list of shards.
type table[K comparable, V any] struct {
	seed   maphash.Seed
	rows   int
	shards []map[K]V // none, or a power of shardGrowth

	// What no other table shares: the list of shards, and the shards with a bit of own.
	owner bool
	own   uint64
}

func newTable[K comparable, V any]() table[K, V] {
	return table[K, V]{seed: maphash.MakeSeed()}
}

// share returns a copy for the caller to modify. t must not be modified after that.
func (t *table[K, V]) share() table[K, V] {
	return table[K, V]{seed: t.seed, rows: t.rows, shards: t.shards}
}

func (t *table[K, V]) get(k K) (v V, ok bool) {
	if len(t.shards) == 0 {
		return v, false
	}
	v, ok = t.shards[t.shard(k)][k]
	return v, ok
}

func (t *table[K, V]) put(k K, v V) {
	m := t.writable(k)
	was := len(m)
	m[k] = v
	if t.rows += len(m) - was; t.rows > rowsPerShard*len(t.shards) && len(t.shards) < mostShards {
		t.grow()
	}
}

func (t *table[K, V]) drop(k K) {
	if _, ok := t.get(k); ok {
		delete(t.writable(k), k)
		t.rows--
	}
}

// all iterates over the rows in no particular order.
func (t *table[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, m := range t.shards { // a list that grow replaces
			for k, v := range m {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// some iterates over the existing rows of keys, each once.
func (t *table[K, V]) some(keys []K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		seen := make(map[K]bool, len(keys))
		for _, k := range keys {
			if v, ok := t.get(k); ok && !seen[k] && !yield(k, v) {
				return
			}
			seen[k] = true
		}
	}
}

func (t *table[K, V]) shard(k K) int {
	if len(t.shards) == 1 {
		return 0
	}
	return int(maphash.Comparable(t.seed, k) % uint64(len(t.shards)))
}

func (t *table[K, V]) writable(k K) map[K]V {
	if !t.owner {
		t.owner = true
		if t.shards = slices.Clone(t.shards); len(t.shards) == 0 {
			t.shards = make([]map[K]V, 1)
		}
	}
	i := t.shard(k)
	if t.own&(1<<i) == 0 {
		t.own |= 1 << i
		if t.shards[i] = maps.Clone(t.shards[i]); t.shards[i] == nil {
			t.shards[i] = make(map[K]V)
		}
	}
	return t.shards[i]
}

// grow distributes the rows over more shards, which are t's own.
func (t *table[K, V]) grow() {
	was := t.shards
	t.shards, t.own = make([]map[K]V, shardGrowth*len(was)), ^uint64(0)
	for i := range t.shards {
		t.shards[i] = make(map[K]V)
	}
	for _, m := range was {
		for k, v := range m {
			t.shards[t.shard(k)][k] = v
		}
	}
}

// clip takes the capacity from all lists of t, so that an append copies them.
func clip[K comparable, V any](t *table[K, []V]) {
	for k, list := range t.all() {
		t.put(k, slices.Clip(list))
	}
}
