package engine

import (
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// message is the text that a run is streaming. Its id is known before its entry has a seq, because deltas carry it.
type message struct {
	claim   mailroom.Claim
	n       int // messages started in this attempt
	text    []byte
	cut     bool           // cut at MaxText
	shown   int            // bytes of thinking and of arguments that were published, with the names of their calls
	calls   map[string]int // bytes of their texts by tool call; thinking is ""
	flushed int            // bytes that are in the store
}

func (m *message) id() string { return entry.MessageID(m.claim.Run, m.claim.Attempt, m.n+1) }

// add appends text up to MaxText and returns the added part as a delta.
func (m *message) add(text string) entry.Delta {
	if m.cut {
		text = "" // drops text after a cut
	} else if room := mailroom.MaxText - len(m.text); len(text) > room {
		for room > 0 && !utf8.RuneStart(text[room]) {
			room--
		}
		text, m.cut = text[:room], true
	}
	d := entry.Delta{
		Run: m.claim.Run, Attempt: m.claim.Attempt, Message: m.id(),
		Offset: len(m.text), Channel: entry.ChannelText, Text: text,
	}
	m.text = append(m.text, text...)
	return d
}

// show returns live text before or within this message as a delta, up to MaxText in all, with the names of calls: a
// model chooses them, and each is kept until the message ends.
func (m *message) show(l mailroom.Live) entry.Delta {
	d := entry.Delta{Run: m.claim.Run, Attempt: m.claim.Attempt, Message: m.id(), Channel: entry.ChannelThinking}
	size := len(l.Text) + len(l.Call) + len(l.Name)
	if l.Text == "" || m.shown > mailroom.MaxText-size {
		return d
	}
	if d.Text, d.Offset = l.Text, m.calls[l.Call]; l.Call != "" {
		d.Channel, d.Call, d.Name = entry.ChannelTool, l.Call, l.Name
	}
	if m.calls == nil {
		m.calls = map[string]int{}
	}
	m.calls[l.Call] += len(l.Text)
	m.shown += size
	return d
}

// partial returns the message so far, nil if it is empty.
func (m *message) partial() *thread.PartialText {
	if len(m.text) == 0 {
		return nil
	}
	return &thread.PartialText{ID: m.id(), Text: string(m.text), Truncated: m.cut}
}

// with returns the message so far with its other parts, nil if it has neither.
func (m *message) with(parts []mailroom.Part) *thread.PartialText {
	p := m.partial()
	if len(parts) == 0 {
		return p
	}
	if p == nil {
		p = &thread.PartialText{ID: m.id()}
	}
	p.Parts = parts
	return p
}

// next starts another message after this one became an entry.
func (m *message) next() {
	m.n++
	m.shown, m.calls, m.text, m.cut, m.flushed = 0, nil, nil, false, 0
}

// wantFlush requests an immediate flush.
func (s *session) wantFlush() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// flushLoop flushes streamed text at an interval, so that a crash loses little, and at once when a
// reader asks for it.
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

// flush writes new text to the store and publishes how much text is stored. It publishes this every time, because a
// reader may have missed it. It reports false when the session is closed or has lost its claim.
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
		piece := store.Partial{Message: m.id(), Offset: m.flushed, Text: string(m.text[m.flushed:])}
		switch err := s.engine.ledger.Flush(s.life, s.claim, piece); {
		case mailroom.CodeOf(err) == mailroom.CodeLeaseLost:
			s.cancel(mailroom.ErrLeaseLost)
			return false
		case err != nil:
			s.engine.options.Log.Warn("could not store streamed text; retrying", "run", s.claim.Run, "error", err)
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
