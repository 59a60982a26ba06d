package thread

import (
	"fmt"
	"slices"
	"strings"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/store"
)

// PartialText is the text of a message that a run is writing, with its other parts.
type PartialText struct {
	ID        string
	Text      string
	Truncated bool // cut at MaxText
	// Parts have the types reasoning, data and file; see [mailroom.Step]. The digest of a step without parts has no
	// member for them, because an older version may repeat the step.
	Parts []mailroom.Part `json:",omitempty"`
}

// all returns the parts of the message in their order: reasoning, the text, data and files.
func (s *PartialText) all() []mailroom.Part {
	var before, after []mailroom.Part
	for _, p := range s.Parts {
		if p.Type == mailroom.PartReasoning {
			before = append(before, p)
		} else {
			after = append(after, p)
		}
	}
	if s.Text != "" {
		before = append(before, mailroom.Text(s.Text)...)
	}
	return append(before, after...)
}

// delivered returns what other threads get of the message, as one text: the text, and the names and addresses of the
// files. Data and reasoning are for those who read the thread.
func (s *PartialText) delivered() []mailroom.Part {
	var lines []string
	if s.Text != "" {
		lines = append(lines, s.Text)
	}
	for _, p := range s.Parts {
		if p.Type == mailroom.PartFile {
			lines = append(lines, strings.TrimPrefix(p.Name+": "+p.URI, ": "))
		}
	}
	return mailroom.Text(strings.Join(lines, "\n"))
}

// Partials are the changes to the flushed text of runs: the pieces of their unfinished messages.
type Partials struct {
	dropped []string        // runs whose stored pieces are dropped
	added   []store.Partial // after that
}

// Text joins the flushed pieces of a run's message: the stored ones, unless they were dropped in
// this transaction, and those of this transaction. It returns nil without pieces.
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

// add adds a piece. It replaces a piece at the same offset.
func (s *Partials) add(p store.Partial) {
	s.added = slices.DeleteFunc(s.added,
		func(old store.Partial) bool { return old.Run == p.Run && old.Offset == p.Offset })
	s.added = append(s.added, p)
}

// drop drops the pieces of a run and reports whether it had any.
func (s *Partials) drop(r *mailroom.Run) bool {
	if !r.Flushed {
		return false
	}
	r.Flushed = false
	s.added = slices.DeleteFunc(s.added, func(p store.Partial) bool { return p.Run == r.ID })
	if !slices.Contains(s.dropped, r.ID) {
		s.dropped = append(s.dropped, r.ID)
	}
	return true
}

// Flush stores a piece of the message that a run is writing. A piece at the same offset is
// replaced. A piece of a message that is in the log changes nothing: the worker does not know yet
// that its step was committed.
func (t *State) Flush(c mailroom.Claim, p store.Partial) error {
	r, err := t.claimedRun(c)
	if err != nil {
		return err
	}
	if p.Offset > mailroom.MaxText-len(p.Text) {
		return check.TooLarge("text", fmt.Sprintf("ends after the first %d bytes of its message", mailroom.MaxText), p.Offset)
	}
	if !check.IsClean(p.Text) || p.Offset < 0 {
		return check.Invalid("text", "must be valid UTF-8 without NUL, from an offset of 0 or more", p.Offset)
	}
	if p.Message != "" && p.Message == r.LastMessage {
		return nil
	}
	t.Partials.add(p)
	t.Touch()
	if !r.Flushed {
		r.Flushed = true
		t.touchRun(r)
	}
	return nil
}
