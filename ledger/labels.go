package ledger

import (
	"log/slog"
	"sync"

	"mailroom/store"
)

// labels are the values of Options.Label that are counted. A server reads those that are in the store before its first
// batch, and adds new ones until there are store.MaxLabelValues. Two servers that add values at the same time may
// exceed that number together.
type labels struct {
	name string
	log  *slog.Logger

	mu     sync.Mutex
	loaded bool            // guarded by mu, like the others
	keys   map[string]bool // of store.LabelKey
	full   bool            // it was logged that a value is not counted
}

// newLabels returns nil if no label is set.
func newLabels(o Options) *labels {
	if o.Label == "" {
		return nil
	}
	return &labels{name: o.Label, log: o.Log, keys: map[string]bool{}}
}

// load reads the values that the store has, in the first batch of each lane.
func (l *labels) load(r store.Reader) error {
	if l == nil || l.isLoaded() {
		return nil
	}
	keys, err := store.LabelKeys(r, l.name) // not under mu: another lane does not wait for this read
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.keys[key] = true
	}
	l.loaded = true
	return nil
}

func (l *labels) isLoaded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded
}

// find returns the function for thread.State.Label. It is nil if no label is set.
func (l *labels) find() func(map[string]string) string {
	if l == nil {
		return nil
	}
	return l.keyOf
}

// keyOf returns the key of the value in the metadata of a run, or "" if it has none, or the value is beyond the limit.
func (l *labels) keyOf(metadata map[string]string) string {
	value := store.LabelValue(metadata[l.name])
	if value == "" {
		return ""
	}
	key := store.LabelKey(l.name, value)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.keys[key]:
		return key
	case len(l.keys) < store.MaxLabelValues:
		l.keys[key] = true
		return key
	}
	if !l.full {
		l.full = true
		l.log.Warn("label has too many values; runs of new ones are summed up with the others", "label", l.name,
			"limit", store.MaxLabelValues)
	}
	return ""
}
