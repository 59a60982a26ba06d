package stream

import (
	"slices"
	"unicode/utf8"

	"mailroom/entry"
	"mailroom/store"
)

// maxHeld bounds the deltas held while earlier text is missing. Text beyond it is read from the
// store.
const maxHeld = 1024

// claim identifies the attempt that writes live text.
type claim struct {
	run     string
	attempt int
}

// writing is the state of the message being written, as far as one reader has it. Its methods do no
// I/O; the caller emits the deltas that they return, in order.
type writing struct {
	claim claim // current claim; zero: none known
	late  claim // last ended claim; its deltas are dropped

	message string        // the open message; "" if none is known
	sent    int           // bytes of it that were emitted
	resume  int           // bytes that the reader has of an open message, from its cursor
	held    []entry.Delta // deltas beyond sent, ordered by Offset

	ended map[string]bool // messages of this claim whose entries were emitted
	// unseen, if not 0, is a seq up to which entries of this claim were not seen: ended lacks their
	// messages.
	unseen int64
}

// beginAttempt starts a new attempt, whose entries will all be seen.
func (w *writing) beginAttempt(c claim) {
	*w = writing{claim: c, late: w.late, ended: make(map[string]bool)}
}

// endAttempt ends the attempt.
func (w *writing) endAttempt() { *w = writing{late: w.claim} }

// openMessage makes message the open one.
func (w *writing) openMessage(message string) {
	w.message, w.sent, w.resume, w.held = message, w.resume, 0, nil
}

// endMessage handles the entry of a message.
func (w *writing) endMessage(message string) {
	w.ended[message] = true
	w.resume = 0
	if w.message == message {
		w.message, w.sent, w.held = "", 0, nil
	}
}

// stale reports whether the message under c is known to have ended.
func (w *writing) stale(c claim, message string) bool {
	switch {
	case c == w.late:
		return true
	case c == w.claim:
		return w.ended[message]
	}
	return c.run == w.claim.run && c.attempt < w.claim.attempt
}

// isOpen reports whether message under c is the open one.
func (w *writing) isOpen(c claim, message string) bool {
	return c == w.claim && message == w.message && message != ""
}

// betweenMessages reports whether the next text of c must be the start of a new message: c is
// current, and every earlier message of it is known and has ended.
func (w *writing) betweenMessages(c claim) bool {
	return c == w.claim && w.message == "" && w.unseen == 0
}

// addText adds text of the open message and returns what is new to the reader. Text after a gap is
// held.
func (w *writing) addText(d entry.Delta) []entry.Delta {
	if d.Offset > w.sent {
		w.holdDelta(d)
		return nil
	}
	var out []entry.Delta
	if n, ok := w.advance(d); ok {
		out = append(out, n)
	}
	for len(w.held) > 0 && w.held[0].Offset <= w.sent {
		if n, ok := w.advance(w.held[0]); ok {
			out = append(out, n)
		}
		w.held = w.held[1:]
	}
	return out
}

// advance moves sent to the end of d and returns the part of d after the old position, from the
// start of a code point.
func (w *writing) advance(d entry.Delta) (entry.Delta, bool) {
	i := w.sent - d.Offset
	if i >= len(d.Text) {
		return entry.Delta{}, false
	}
	for i > 0 && !utf8.RuneStart(d.Text[i]) {
		i--
	}
	w.sent = d.Offset + len(d.Text)
	d.Offset, d.Text = d.Offset+i, d.Text[i:]
	return d, true
}

func (w *writing) holdDelta(d entry.Delta) {
	i, found := slices.BinarySearchFunc(w.held, d.Offset, func(h entry.Delta, offset int) int {
		return h.Offset - offset
	})
	if !found && len(w.held) < maxHeld {
		w.held = slices.Insert(w.held, i, d)
	}
}

// flushed adds the pieces from the store and returns what is new to the reader.
func (w *writing) flushed(pieces []store.Partial) []entry.Delta {
	if len(pieces) == 0 {
		return nil
	}
	first := pieces[0]
	if (claim{first.Run, first.Attempt}) != w.claim || w.ended[first.Message] {
		return nil
	}
	if w.message != first.Message {
		w.openMessage(first.Message)
	}
	d := entry.Delta{
		Run: first.Run, Attempt: first.Attempt, Message: first.Message, Offset: w.sent, Channel: "text",
	}
	var text []byte
	for _, p := range pieces {
		if p.Offset+len(p.Text) <= w.sent {
			continue
		}
		if len(text) == 0 {
			d.Offset = p.Offset
		}
		text = append(text, p.Text...)
	}
	d.Text = string(text)
	return w.addText(d)
}
