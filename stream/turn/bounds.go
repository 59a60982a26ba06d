package turn

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"mailroom"
)

// Bounds of a State. What a server wrote stays within them, except for turns that are very long.
const (
	MaxTurns     = 2000             // beyond it the oldest finished turns are dropped, else the oldest ones
	MaxParts     = 4096             // most parts of a turn; beyond it the oldest parts are dropped, see Turn.Dropped
	MaxPartBytes = mailroom.MaxText // most bytes of each text and value of a part
	MaxTurnBytes = 16 << 20         // most bytes of a turn; beyond it the oldest parts are dropped
	MaxBytes     = 32 << 20         // most bytes of all turns; beyond it turns are dropped as beyond MaxTurns

	maxLiveTools = 64  // calls of one message whose arguments are live
	maxEarly     = 256 // deltas that wait for an entry, of MaxText in all
	partSize     = 512
)

// size is about what p takes in memory.
func (p *Part) size() int {
	n := partSize + 3*len(p.Key) + len(p.Message) + len(p.Text) + len(p.Data) + len(p.URI) + len(p.MimeType) + len(p.Name)
	if q := p.Question; q != nil {
		n += len(q.Action) + len(q.Arguments) + len(q.Answer) + len(q.Reason)
	}
	if c := p.Child; c != nil && c.Reply != nil {
		n += len(*c.Reply)
	}
	if c := p.Tool; c != nil {
		n += len(c.Input) + len(c.Summary) + len(c.Output)
	}
	return n
}

// add adds p as the last part of t, and keeps the bounds.
func (s *State) add(t *Turn, p *Part) {
	p.clip()
	t.Parts = append(t.Parts, p)
	s.grow(t, p.size())
	s.trim(t)
}

// trim drops the oldest parts beyond the bounds: those that have ended, unless all are open.
func (s *State) trim(t *Turn) {
	for len(t.Parts) > MaxParts || t.bytes > MaxTurnBytes && len(t.Parts) > 1 {
		i := slices.IndexFunc(t.Parts, func(p *Part) bool { return p.Progress != ProgressOpen })
		if i < 0 || i == len(t.Parts)-1 {
			i = 0
		}
		s.drop(t, i)
	}
}

// update changes p and keeps the bounds.
func (s *State) update(t *Turn, p *Part, change func()) {
	before := p.size()
	change()
	p.clip()
	s.grow(t, p.size()-before)
	s.trim(t)
}

func (s *State) grow(t *Turn, bytes int) {
	t.bytes += bytes
	s.bytes += bytes
}

func (s *State) drop(t *Turn, i int) {
	p := t.Parts[i]
	t.Parts = slices.Delete(t.Parts, i, i+1)
	s.grow(t, -p.size())
	t.Dropped++
	if p.Tool != nil && t.calls[p.Tool.Call] == p {
		delete(t.calls, p.Tool.Call)
		delete(t.keys, toolName(p.Tool.Call))
	}
	if q := p.Question; q != nil && t.tickets[q.Ticket] == p {
		delete(t.tickets, q.Ticket)
		delete(t.keys, questionName(q.Ticket))
	}
	if c := p.Child; c != nil && t.tickets[c.Ticket] == p {
		delete(t.tickets, c.Ticket)
	}
}

// bound drops turns beyond the bounds, but not the current turn, to which an entry was just applied.
func (s *State) bound(current *Turn) {
	for len(s.turns) > 1 && (len(s.turns) > MaxTurns || s.bytes > MaxBytes) {
		i := slices.IndexFunc(s.turns, func(t *Turn) bool { return t != current && t.Status.Finished() })
		if i < 0 {
			i = slices.IndexFunc(s.turns, func(t *Turn) bool { return t != current })
		}
		s.Forget(s.turns[i].Run)
	}
}

// Forget drops a turn. Call it for a finished turn that is not needed any more. Later entries of the run of a dropped
// turn make a new turn without a beginning.
func (s *State) Forget(run string) {
	t := s.byRun[run]
	if t == nil || t.assumed {
		return
	}
	s.bytes -= t.bytes
	delete(s.byRun, run)
	s.turns = slices.DeleteFunc(s.turns, func(one *Turn) bool { return one == t })
	if s.live.run == run {
		s.live = live{shown: s.live.shown}
	}
}

// clip cuts texts that are longer than MaxPartBytes. It leaves out longer values, because a part of a JSON value is not
// valid JSON.
func (p *Part) clip() {
	p.clipText(&p.Text)
	for _, text := range []*string{&p.Name, &p.URI, &p.MimeType} {
		p.clipText(text)
	}
	p.clipValue(&p.Data)
	if c := p.Tool; c != nil {
		p.clipText(&c.Summary)
		p.clipValue(&c.Input)
		p.clipValue(&c.Output)
	}
	if q := p.Question; q != nil {
		p.clipText(&q.Reason)
		p.clipValue(&q.Arguments)
		p.clipValue(&q.Answer)
	}
}

func (p *Part) clipText(text *string) {
	if len(*text) > MaxPartBytes {
		*text, p.Cut = prefix(*text, MaxPartBytes), true
	}
}

func (p *Part) clipValue(value *json.RawMessage) {
	if len(*value) > MaxPartBytes {
		*value, p.Cut = nil, true
	}
}

// prefix returns at most so many bytes of text, up to the start of a code point.
func prefix(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}
