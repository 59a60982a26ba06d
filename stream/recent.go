package stream

// recentKeys bounds the keys that a recent has of each generation.
const recentKeys = 8192

// recent is a map that forgets old keys: it keeps at least the last recentKeys that were used.
type recent[K comparable, V any] struct{ young, old map[K]V }

func (r *recent[K, V]) get(k K) (V, bool) {
	if v, ok := r.young[k]; ok {
		return v, true
	}
	v, ok := r.old[k]
	if ok {
		r.put(k, v)
	}
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	if r.young == nil || len(r.young) >= recentKeys {
		r.young, r.old = map[K]V{}, r.young
	}
	r.young[k] = v
}
