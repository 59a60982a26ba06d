package turn

import (
	"slices"
	"strings"

	"mailroom"
	"mailroom/entry"
)

// live is what the log does not have yet: the message being written by the attempt that holds the thread. It is apart
// from the turns, so that no live text, be it late, repeated or lost, changes what entries say.
type live struct {
	run     string // run that writes the live text; "": not known yet
	attempt int
	message string
	shown   int // bytes of the message's text that the reader has

	text      *Part
	reasoning *Part
	tools     []*Part
	early     []entry.Delta              // deltas of messages after one whose entry has not come
	writers   map[*Part]*strings.Builder // texts of the parts, because appending to a string copies it
}

// taken is what an entry of a message takes out of the live text.
type taken struct {
	text, reasoning *Part
	shown           int
	others          []*Part
}

// Live returns the parts of a turn that the log does not have yet, in the order reasoning, text, tool calls. They
// follow the turn's Parts. An entry replaces or drops them.
func (s *State) Live(run string) []*Part {
	if s.live.run != run {
		return nil
	}
	return s.live.parts()
}

func (l *live) parts() (all []*Part) {
	for _, p := range []*Part{l.reasoning, l.text} {
		if p != nil {
			all = append(all, p)
		}
	}
	return append(all, l.tools...)
}

// beside returns how many bytes of thinking and of arguments are live.
func (l *live) beside() (n int) {
	for _, p := range l.parts() {
		if p != l.text {
			n += len(p.Text)
		}
	}
	return n
}

// end returns the position of the end of the part's text.
func (p *Part) end() int { return p.From + len(p.Text) }

// ApplyDelta applies live text, in the order in which the stream sends it, and returns what it changes. A repeat
// changes nothing, nor does text of a message that has ended. Text after a hole is passed over, because the entry of
// its message has it; live thinking and arguments may have no entry, so they go on after a hole.
func (s *State) ApplyDelta(d entry.Delta) []Event {
	s.out = nil
	s.resume() // the stream sends live text after all entries
	if d.Run == "" || d.Text == "" || d.Channel == entry.ChannelWaits || d.Offset < 0 || d.Offset > mailroom.MaxText {
		return nil
	}
	t := s.byRun[d.Run]
	if t != nil && !t.takes(&d) || s.live.run == d.Run && s.live.attempt > d.Attempt {
		return nil
	}
	switch n := t.ahead(&d); {
	case n < 0:
		return nil
	case n > 0:
		s.live.hold(d)
	case d.IsText():
		if s.fits(&d) {
			s.writeText(s.writer(&d), &d)
		}
	case d.Channel == entry.ChannelThinking:
		s.writeBeside(s.writer(&d), &d)
	case d.Channel == entry.ChannelTool && (t == nil || !t.calling(&d)):
		s.writeBeside(s.writer(&d), &d)
	}
	return s.numberLive()
}

// takes reports whether live text of the turn can be new: its attempt goes on, and the message is not in the log.
func (t *Turn) takes(d *entry.Delta) bool {
	if t.said == d.Message && d.Channel != entry.ChannelTool {
		return false
	}
	return t.assumed || d.Attempt > t.Attempt && !t.Status.Finished() ||
		d.Attempt == t.Attempt && t.Status == StatusRunning
}

// ahead returns how many messages of the attempt the log lacks before the message of d, 0 if that is not known, and
// less than 0 if the log has the message. A stream that lost a notice sends the start of a message before the entry of
// the message before. A number could not say so: its bytes are of the next message. The id of a message has its place
// in the attempt.
func (t *Turn) ahead(d *entry.Delta) int {
	if t == nil || t.counted != d.Attempt {
		return 0
	}
	n, ok := entry.MessageNumber(d.Message, d.Run, d.Attempt)
	switch {
	case !ok:
		return 0
	case n == t.written && d.Channel == entry.ChannelTool: // its calls follow it
		return 0
	}
	return n - t.written - 1
}

// hold keeps d until the entry of the message before has come.
func (l *live) hold(d entry.Delta) {
	held := len(d.Text)
	for _, e := range l.early {
		held += len(e.Text)
	}
	if len(l.early) < maxEarly && held <= mailroom.MaxText {
		l.early = append(l.early, d)
	}
}

// takeEarly applies the live text that came before the entry of the message before.
func (s *State) takeEarly() (events []Event) {
	early := s.live.early
	s.live.early = nil
	for _, d := range early {
		events = append(events, s.ApplyDelta(d)...)
	}
	return events
}

// calling reports whether the call of d is in the log, so that d is late.
func (t *Turn) calling(d *entry.Delta) bool {
	p := t.calls[d.Call]
	return p != nil && p.Attempt >= d.Attempt
}

// fits reports whether there is no hole between what the reader has of the text and d.
func (s *State) fits(d *entry.Delta) bool {
	l := &s.live
	switch {
	case l.run == "" && l.message == "": // the message at the reader's cursor
		return d.Offset <= l.shown
	case l.run == d.Run && l.attempt == d.Attempt && l.message == d.Message && l.text != nil:
		return d.Offset <= l.text.end()
	case l.run == d.Run && l.attempt == d.Attempt && (l.message == d.Message || l.message == ""):
		return d.Offset <= l.shown
	}
	return d.Offset == 0
}

// writer makes the message of d the one being written, and returns its turn. A turn that no entry has shown yet begins
// without one.
func (s *State) writer(d *entry.Delta) *Turn {
	l := &s.live
	if l.run != "" && (l.run != d.Run || l.attempt != d.Attempt) {
		s.dropLive()
	}
	t := s.byRun[d.Run]
	if t == nil {
		t = s.newTurn(d.Run)
		t.assumed, t.Status = true, StatusRunning
		s.announce(TurnBegan, t, nil)
	}
	if l.message != "" && l.message != d.Message {
		for _, p := range l.parts() {
			s.announce(PartGone, t, p)
		}
		*l = live{early: l.early}
	}
	l.run, l.attempt, l.message = d.Run, d.Attempt, d.Message
	if l.writers == nil {
		l.writers = map[*Part]*strings.Builder{}
	}
	return t
}

// writeText appends text of the message. The reader gets what it does not have.
func (s *State) writeText(t *Turn, d *entry.Delta) {
	l := &s.live
	if l.text == nil {
		l.text = &Part{
			Key: messageKey(d.Message, KindText, 1), Kind: KindText, Progress: ProgressLive, Attempt: d.Attempt,
			Message: d.Message, From: d.Offset,
		}
		if l.shown == 0 {
			s.announce(PartBegan, t, l.text)
		}
	}
	p := l.text
	fresh := d.Text[min(p.end()-d.Offset, len(d.Text)):]
	l.write(p, prefix(fresh, mailroom.MaxText-p.end()))
	if p.end() <= l.shown {
		return
	}
	e := Event{Type: PartGrew, Run: t.Run, Status: t.Status, Part: *p, Offset: l.shown, Text: p.Text[l.shown-p.From:]}
	l.shown = p.end()
	s.out = append(s.out, e)
}

// writeBeside appends thinking, or the arguments of a tool call.
func (s *State) writeBeside(t *Turn, d *entry.Delta) {
	l := &s.live
	p := l.besideOf(d)
	if p == nil {
		if d.Channel == entry.ChannelTool && len(l.tools) >= maxLiveTools {
			return
		}
		p = &Part{Progress: ProgressLive, Attempt: d.Attempt, Message: d.Message, From: d.Offset}
		if d.Channel == entry.ChannelTool {
			p.Key, p.Kind, p.Name, p.Tool = t.nextKey(toolName(d.Call)), KindTool, d.Name, &Tool{Call: d.Call}
			l.tools = append(l.tools, p)
		} else {
			p.Key, p.Kind = messageKey(d.Message, KindReasoning, 1), KindReasoning
			l.reasoning = p
		}
		s.announce(PartBegan, t, p)
	}
	offset := p.end()
	if d.Offset > offset { // text before this delta was lost
		p.From, p.Text, offset = d.Offset, "", d.Offset
		delete(l.writers, p)
	}
	fresh := prefix(d.Text[min(offset-d.Offset, len(d.Text)):], max(0, mailroom.MaxText-l.beside()))
	if fresh == "" {
		return
	}
	l.write(p, fresh)
	s.announce(PartGrew, t, p)
	e := &s.out[len(s.out)-1]
	e.Offset, e.Text = offset, fresh
}

// besideOf returns the part that d continues, or nil.
func (l *live) besideOf(d *entry.Delta) *Part {
	if d.Channel == entry.ChannelThinking {
		return l.reasoning
	}
	i := slices.IndexFunc(l.tools, func(p *Part) bool { return p.Tool.Call == d.Call })
	if i < 0 {
		return nil
	}
	return l.tools[i]
}

func (l *live) write(p *Part, text string) {
	b := l.writers[p]
	if b == nil {
		b = &strings.Builder{}
		l.writers[p] = b
	}
	b.WriteString(text)
	p.Text = b.String()
}

// takeMessage takes out what was live of a message that is in the log now. Arguments of tool calls stay: the entries of
// the calls follow. If another message is live, what was shown of it has no entry.
func (l *live) takeMessage(run string, attempt int, message string) taken {
	if l.run != "" && (l.run != run || l.attempt > attempt) {
		return taken{}
	}
	out := taken{text: l.text, reasoning: l.reasoning, shown: l.shown}
	if l.message != "" && l.message != message {
		out = taken{others: l.parts()}
		l.tools = nil
	}
	delete(l.writers, l.text)
	delete(l.writers, l.reasoning)
	l.text, l.reasoning, l.shown = nil, nil, 0
	return out
}

// takeTool takes out the live arguments of a call whose entry has come, and reports whether there were any.
func (l *live) takeTool(run, call string) bool {
	before := len(l.tools)
	if l.run == run {
		l.tools = slices.DeleteFunc(l.tools, func(p *Part) bool {
			if p.Tool.Call == call {
				delete(l.writers, p)
				return true
			}
			return false
		})
	}
	return len(l.tools) < before
}

// dropLiveOf drops what is live of a turn in attempts before the given one. If it is not known which turn has the
// message at the reader's cursor, a turn that has started is taken for its author.
func (s *State) dropLiveOf(t *Turn, attempt int) {
	if s.live.run == "" && attempt > 1 || s.live.run == t.Run && s.live.attempt < attempt {
		s.dropLive()
	}
}

// dropLive drops what is live: no entry has it.
func (s *State) dropLive() {
	t := s.byRun[s.live.run]
	for _, p := range s.live.parts() {
		s.announce(PartGone, t, p)
	}
	if t != nil && t.assumed {
		delete(s.byRun, t.Run)
	}
	s.live = live{}
}

// numberLive numbers the events of a delta. Text of the message gets the number of its place in the log.
func (s *State) numberLive() []Event {
	seq, _ := Split(s.after)
	for i := range s.out {
		e := &s.out[i]
		if !e.live {
			n := Number(max(s.seq, seq), s.live.shown)
			e.Cursor = n > s.at
			s.at = max(s.at, n)
		}
		e.Number = s.at
	}
	return s.out
}
