package turn

import (
	"strconv"
	"strings"

	"mailroom"
)

// message applies a message of the agent: the text of the log replaces what was shown live.
func (s *State) message(e mailroom.Entry) {
	var m mailroom.Message
	if e.Decode(&m) != nil || m.Role != mailroom.RoleAssistant {
		return
	}
	t := s.turn(e)
	l := s.live.takeMessage(t.Run, e.Attempt, m.ID)
	for _, p := range l.others {
		s.announce(PartGone, t, p) // the message of this part has no entry
	}
	t.said, t.written = m.ID, t.written+1
	var texts, others []*Part // the first text, and the rest
	var all []*Part
	counts := map[Kind]int{}
	for _, from := range m.Parts {
		p := partOf(&m, from)
		if p == nil {
			continue // a part of a newer version is left out
		}
		counts[p.Kind]++
		p.Key, p.Seq, p.Attempt = messageKey(m.ID, p.Kind, counts[p.Kind]), e.Seq, e.Attempt
		s.add(t, p)
		all = append(all, p)
		if p.Kind == KindText && len(texts) == 0 {
			texts = append(texts, p)
		} else {
			others = append(others, p)
		}
	}
	if s.textFirst = l.shown > 0 && len(texts) > 0; s.textFirst {
		all = append(texts, others...)
	}
	for _, p := range all {
		switch {
		case p.Kind == KindText && p == texts[0]:
			s.written(t, p, l.text, l.shown)
			l.text = nil
		case p.Kind == KindReasoning && l.reasoning != nil && p.Key == l.reasoning.Key:
			s.written(t, p, l.reasoning, l.reasoning.end())
			l.reasoning = nil
		default:
			s.written(t, p, nil, 0)
		}
	}
	for _, p := range []*Part{l.text, l.reasoning} {
		if p != nil {
			s.announce(PartGone, t, p)
		}
	}
}

// messageKey returns the key of the n-th part of a kind in a message. The key of the first is known before the entry.
func messageKey(message string, kind Kind, n int) string {
	key := message + "/" + string(kind)
	if n > 1 {
		key += "#" + strconv.Itoa(n)
	}
	return key
}

// partOf returns a part of a message, nil for a type of a newer version.
func partOf(m *mailroom.Message, from mailroom.Part) *Part {
	p := &Part{
		Progress: ProgressDone, Message: m.ID, Internal: m.Visibility == mailroom.VisibleInternal, Partial: m.Partial,
		Name: from.Name,
	}
	switch from.Type {
	case mailroom.PartText:
		p.Kind, p.Text, p.Cut = KindText, from.Text, m.Truncated
	case mailroom.PartReasoning:
		p.Kind, p.Text = KindReasoning, from.Text
	case mailroom.PartData:
		p.Kind, p.Data = KindData, from.Data
	case mailroom.PartFile:
		p.Kind, p.Data, p.URI, p.MimeType = KindFile, from.Data, from.URI, from.MimeType
	default:
		return nil
	}
	return p
}

// written adds the events of a part of a message that is in the log. The reader already has the first shown bytes of
// the part. If it got them before its cursor and not as live text, live may be nil.
func (s *State) written(t *Turn, p, live *Part, shown int) {
	if live == nil && shown == 0 {
		s.push(PartBegan, t, p)
	} else {
		s.slot++
	}
	switch {
	case live != nil && !strings.HasPrefix(p.Text[min(live.From, len(p.Text)):], live.Text), len(p.Text) < shown:
		s.push(PartChanged, t, p) // a crash lost the end of the part, or the agent wrote another text
	case len(p.Text) > shown:
		s.pushText(t, p, shown, p.Text[shown:])
	default:
		s.slot++
	}
	s.push(PartEnded, t, p)
}
