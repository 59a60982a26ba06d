package stream

import (
	"slices"
	"unicode/utf8"

	"mailroom"
)

// maxHeld bounds the deltas that a reader holds while text before them is
// missing. What does not fit comes with the flushed text.
const maxHeld = 1024

// claim is what live text is written under.
type claim struct {
	run     string
	attempt int
}

// writing is the message that the current run writes, as far as one reader has
// it. It is a plain value machine: what comes out of its methods is to be
// emitted, in that order.
type writing struct {
	claim claim // who writes; zero: nobody that is known
	late  claim // wrote, and is over: its deltas are dropped unread

	message string           // the open message; "" if none is known
	sent    int              // bytes of it that the reader has
	resume  int              // bytes the reader brought of an open message not known yet
	held    []mailroom.Delta // of it, beyond sent, by Offset

	ended map[string]bool // messages of this claim whose entries were seen
	// unseen, unless 0, says that entries of this claim up to this seq went
	// by before the reader came: ended does not know their messages.
	unseen int64
}

// beginAttempt starts a new attempt, whose entries are all seen from here on.
func (w *writing) beginAttempt(c claim) {
	*w = writing{claim: c, late: w.late, ended: make(map[string]bool)}
}

// endAttempt ends the attempt.
func (w *writing) endAttempt() { *w = writing{late: w.claim} }

// openMessage makes message the one being written.
func (w *writing) openMessage(message string) {
	w.message, w.sent, w.resume, w.held = message, w.resume, 0, nil
}

// endMessage is told of a message's entry.
func (w *writing) endMessage(message string) {
	w.ended[message] = true
	w.resume = 0
	if w.message == message {
		w.message, w.sent, w.held = "", 0, nil
	}
}

// stale reports whether text of a message under c is known to be over.
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

// betweenMessages reports whether c is known to have no message open that the reader
// could have missed the start of, so that whatever begins now is the next one.
func (w *writing) betweenMessages(c claim) bool {
	return c == w.claim && w.message == "" && w.unseen == 0
}

// addText adds text of the open message and returns what is new to the reader.
// Text beyond a hole is held.
func (w *writing) addText(d mailroom.Delta) []mailroom.Delta {
	if d.Offset > w.sent {
		w.holdDelta(d)
		return nil
	}
	var out []mailroom.Delta
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

// advance moves sent over d and returns the part of d that was beyond it, from the
// start of a code point.
func (w *writing) advance(d mailroom.Delta) (mailroom.Delta, bool) {
	i := w.sent - d.Offset
	if i >= len(d.Text) {
		return mailroom.Delta{}, false
	}
	for i > 0 && !utf8.RuneStart(d.Text[i]) {
		i--
	}
	w.sent = d.Offset + len(d.Text)
	d.Offset, d.Text = d.Offset+i, d.Text[i:]
	return d, true
}

func (w *writing) holdDelta(d mailroom.Delta) {
	i, found := slices.BinarySearchFunc(w.held, d.Offset, func(h mailroom.Delta, offset int) int {
		return h.Offset - offset
	})
	if !found && len(w.held) < maxHeld {
		w.held = slices.Insert(w.held, i, d)
	}
}

// flushed adds the pieces that are in the store.
func (w *writing) flushed(pieces []mailroom.Partial) []mailroom.Delta {
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
	d := mailroom.Delta{
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
