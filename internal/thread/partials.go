package thread

import (
	"slices"

	"mailroom"
	"mailroom/store"
)

// PartialText is the text of a message that a run is writing.
type PartialText struct {
	ID        string
	Text      string
	Truncated bool // cut at MaxText
}

// Partials are the changes to the flushed text of runs: their unfinished messages.
type Partials struct {
	dropped []string        // runs whose stored pieces are dropped
	added   []store.Partial // after that
}

// Text joins the flushed pieces of a run's message: the stored ones, unless they were dropped in
// this transaction, and those of this transaction. It returns nil if there are none.
func (s *Partials) Text(run string, stored []store.Partial) *PartialText {
	if slices.Contains(s.dropped, run) {
		stored = nil
	}
	var text *PartialText
	for _, p := range append(slices.Clone(stored), s.added...) {
		if p.Run != run {
			continue
		}
		if text == nil {
			text = &PartialText{ID: p.Message}
		}
		text.Text = text.Text[:min(p.Offset, len(text.Text))] + p.Text
	}
	return text
}

// add adds a piece. It replaces one at the same offset.
func (s *Partials) add(p store.Partial) {
	s.added = slices.DeleteFunc(s.added, func(old store.Partial) bool { return old.Run == p.Run && old.Offset == p.Offset })
	s.added = append(s.added, p)
}

// drop drops the pieces of a run.
func (s *Partials) drop(r *mailroom.Run) {
	s.added = slices.DeleteFunc(s.added, func(p store.Partial) bool { return p.Run == r.ID })
	if !slices.Contains(s.dropped, r.ID) {
		s.dropped = append(s.dropped, r.ID)
	}
}
