package memory

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
)

const shards = 64

// table is a map with cheap copies: a copy shares its shards with the original, and each of the two
// copies a shard before its first change to it. Values are never modified in place, so the state of
// a View does not change.
type table[K comparable, V any] struct {
	seed   maphash.Seed
	shards [shards]map[K]V
	own    [shards]bool // shards that no other table shares
}

func newTable[K comparable, V any]() table[K, V] {
	return table[K, V]{seed: maphash.MakeSeed()}
}

// share returns a copy for the caller to modify. t must not be modified after that.
func (t *table[K, V]) share() table[K, V] {
	return table[K, V]{seed: t.seed, shards: t.shards}
}

func (t *table[K, V]) get(k K) (V, bool) {
	v, ok := t.shards[t.shard(k)][k]
	return v, ok
}

func (t *table[K, V]) put(k K, v V) { t.writable(k)[k] = v }

func (t *table[K, V]) drop(k K) {
	if _, ok := t.get(k); ok {
		delete(t.writable(k), k)
	}
}

// all iterates over the rows in no particular order.
func (t *table[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, m := range t.shards {
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
	return int(maphash.Comparable(t.seed, k) % shards)
}

func (t *table[K, V]) writable(k K) map[K]V {
	i := t.shard(k)
	if !t.own[i] {
		t.own[i] = true
		if t.shards[i] = maps.Clone(t.shards[i]); t.shards[i] == nil {
			t.shards[i] = make(map[K]V)
		}
	}
	return t.shards[i]
}

// clip takes the capacity from all lists of t, so that an append copies them.
func clip[K comparable, V any](t *table[K, []V]) {
	for k, list := range t.all() {
		t.put(k, slices.Clip(list))
	}
}
