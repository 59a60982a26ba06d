package engine

import (
	"fmt"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/bus"
)

// message is the one that a run is writing. Its id "<run>.<attempt>-<n>" is
// known before its entry has a seq, because live text names it.
type message struct {
	claim   mailroom.Claim
	n       int // messages begun in this attempt
	text    []byte
	cut     bool // at MaxText
	flushed int  // bytes that are in the store
}

func (m *message) id() string { return fmt.Sprintf("%s.%d-%d", m.claim.Run, m.claim.Attempt, m.n+1) }

// add appends text, as far as it fits, and returns it as a delta.
func (m *message) add(text string) mailroom.Delta {
	if m.cut {
		text = "" // once cut, nothing more is taken
	} else if room := mailroom.MaxText - len(m.text); len(text) > room {
		for room > 0 && !utf8.RuneStart(text[room]) {
			room--
		}
		text, m.cut = text[:room], true
	}
	d := mailroom.Delta{
		Run: m.claim.Run, Attempt: m.claim.Attempt, Message: m.id(),
		Offset: len(m.text), Channel: "text", Text: text,
	}
	m.text = append(m.text, text...)
	return d
}

// said is the message so far, nil if nothing was written.
func (m *message) said() *mailroom.PartialText {
	if len(m.text) == 0 {
		return nil
	}
	return &mailroom.PartialText{ID: m.id(), Text: string(m.text), Truncated: m.cut}
}

// next begins another message after this one became an entry.
func (m *message) next() {
	if len(m.text) > 0 {
		m.n++
	}
	m.text, m.cut, m.flushed = nil, false, 0
}

// wantFlush asks the flusher to work at once.
func (s *session) wantFlush() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// flushLoop keeps streamed text about once a second, so that little is lost
// with the process, and at once when a reader asks for it.
func (s *session) flushLoop() {
	tick := time.NewTicker(s.engine.options.Flush)
	defer tick.Stop()
	for {
		asked := false
		select {
		case <-tick.C:
		case <-s.kick:
			asked = true
		}
		if !s.flush(asked) {
			return
		}
	}
}

// flush writes what is not in the store yet, and tells how much is there, each
// time anew: a reader may have missed it. It reports false when the session is
// over or has lost its claim.
func (s *session) flush(asked bool) bool {
	s.flushing.lock()
	defer s.flushing.leave()
	s.turn.lock()
	m := s.text
	s.turn.leave()
	if s.closed.Load() {
		return false
	}
	if len(m.text) > m.flushed {
		piece := mailroom.Partial{Message: m.id(), Offset: m.flushed, Text: string(m.text[m.flushed:])}
		switch err := s.engine.ledger.Flush(s.life, s.claim, piece); {
		case mailroom.CodeOf(err) == mailroom.CodeLeaseLost:
			s.cancel(mailroom.ErrLeaseLost)
			return false
		case err != nil:
			s.engine.options.Log.Warn("flush failed, trying again", "run", s.claim.Run, "error", err)
			return true
		}
		s.turn.lock()
		s.text.flushed = len(m.text)
		s.turn.leave()
	} else if len(m.text) == 0 && !asked {
		return true
	}
	s.engine.bus.Publish(bus.Notice{Thread: s.claim.Thread, Flushed: &bus.Flushed{
		Run: s.claim.Run, Attempt: s.claim.Attempt, Message: m.id(), Upto: len(m.text),
	}})
	return true
}
