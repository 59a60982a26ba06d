package turn

// Event says what changed. Part is a copy, as the part was after the entry or the delta.
type Event struct {
	Type Type
	Run  string
	// Number is the place of the event, see the package comment. With Cursor, it is greater than all before it, and a
	// reader continues after it with [After]. Without Cursor the event is of live text that the log does not have, or
	// announces a part of which nothing was shown yet; the number of the event before stays.
	Number int64
	Cursor bool

	Status Status // status of the turn
	Part   Part   // the part, in events of parts

	// Offset and Text are what a part grew by. Offset is the position in bytes of Text in the text of the part. It
	// continues what the reader has, except that live thinking and live arguments may have a hole before it.
	Offset int
	Text   string

	slot int  // place among the events of its entry
	live bool // the log does not have it
}

// Type is the type of an Event.
type Type string

// Values of an event's Type.
const (
	TurnBegan   Type = "turn.began"
	TurnChanged Type = "turn.changed" // the turn has another status, attempt or stop
	TurnEnded   Type = "turn.ended"   // a failed or cancelled turn may change again, if it is retried
	PartBegan   Type = "part.began"
	PartGrew    Type = "part.grew"    // Text was appended to the part
	PartChanged Type = "part.changed" // a field of the part changed; a text replaces what the reader has
	PartEnded   Type = "part.ended"   // the part is complete; it may change later, as text that is superseded
	PartGone    Type = "part.gone"    // the part was live only, and the log has no such part
)

// announce adds an event of live text that the log does not have.
func (s *State) announce(kind Type, t *Turn, p *Part) {
	e := Event{Type: kind, Run: t.Run, Status: t.Status, live: true}
	if p != nil {
		e.Part = *p
	}
	s.out = append(s.out, e)
}

// push adds an event of a part to those of the entry that is being applied.
func (s *State) push(kind Type, t *Turn, p *Part) {
	s.out = append(s.out, Event{Type: kind, Run: t.Run, Status: t.Status, Part: *p, slot: s.slot})
	s.slot++
}

// pushText adds what a part grew by.
func (s *State) pushText(t *Turn, p *Part, offset int, text string) {
	s.push(PartGrew, t, p)
	e := &s.out[len(s.out)-1]
	e.Offset, e.Text = offset, text
}

// changed adds an event of the turn, unless the entry is its first one: then the event of its beginning says it.
func (s *State) changed(kind Type, t *Turn) {
	if s.began != t || kind == TurnEnded {
		s.out = append(s.out, Event{Type: kind, Run: t.Run, Status: t.Status, slot: s.slot})
	}
	s.slot++
}

// number numbers the events of the entry seq, and leaves out those that the reader has.
func (s *State) number(seq int64) []Event {
	last := len(s.out) - 1
	for last >= 0 && s.out[last].live {
		last--
	}
	kept := s.out[:0]
	for i, e := range s.out {
		n := place(seq, e.slot, s.textFirst)
		if i == last {
			n = Number(seq, s.live.shown)
		}
		if !e.live && n <= s.after {
			continue
		}
		if e.live || i != last && s.live.shown > 0 && !s.textFirst {
			n = s.at // the entry leaves a message open: no number says both
		}
		e.Cursor = !e.live && n > s.at
		s.at = max(s.at, n)
		e.Number = s.at
		kept = append(kept, e)
	}
	return kept
}
