package thread

import (
	"mailroom"
	"mailroom/store"
)

// Keys are the loaded and new submit keys of a thread. A key recognizes a repeated submit.
type Keys struct {
	known map[string]store.SubmitKey
	added []store.SubmitKey
}

// Add adds the row of a key, unless the key was loaded or used before.
func (s *Keys) Add(row store.SubmitKey) {
	if !s.Has(row.Key) {
		s.set(row)
	}
}

// Has reports whether the key was loaded or used in this transaction.
func (s *Keys) Has(key string) bool {
	_, ok := s.known[key]
	return ok
}

// Find returns the result of the first submit with a loaded key, with the status that the run had then. repeat is
// false for a new key and for "". A key that was used with another digest is a conflict.
func (s *Keys) Find(key, digest string) (first store.Submitted, repeat bool, err error) {
	k, ok := s.known[key]
	switch {
	case !ok || key == "":
		return store.Submitted{}, false, nil
	case k.Digest != digest:
		return store.Submitted{}, false, mailroom.Errorf(mailroom.CodeConflict,
			"key %q was used in thread %q for another submit; use a new key for new content", k.Key, k.Thread)
	}
	first = k.Result
	first.Disposition = store.DispositionDuplicate
	return first, true, nil
}

// Record records a result under a key of the result's thread, unless the key is "". A transition
// that records a key also changes the row.
func (s *Keys) Record(key, digest string, result store.Submitted) {
	if key == "" {
		return
	}
	row := store.SubmitKey{Thread: result.Thread, Key: key, Digest: digest, Result: result}
	s.set(row)
	s.added = append(s.added, row)
}

func (s *Keys) set(row store.SubmitKey) {
	if s.known == nil {
		s.known = map[string]store.SubmitKey{}
	}
	s.known[row.Key] = row
}
