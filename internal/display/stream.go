package display

import "unicode/utf8"

// Stream renders a text in chunks as [Text] renders the whole. The zero value is ready to use. Stream holds back the
// end of a chunk if its rendering depends on the next chunk.
type Stream struct {
	p    printer
	held string
}

// Add appends chunk to the text and returns the part that no later chunk can change, rendered. It
// holds back what follows.
func (s *Stream) Add(chunk string) string {
	text := s.held + chunk
	at := undecided(text)
	s.held = text[at:]
	return s.print(text, at)
}

// End returns the text that was held back. The next chunk begins a new text.
func (s *Stream) End() string {
	text := s.print(s.held, len(s.held))
	*s = Stream{}
	return text
}

func (s *Stream) print(text string, end int) string {
	s.p.render(text, end, false)
	defer s.p.Reset()
	return s.p.String()
}

// undecided returns the offset from which the rendering of s depends on the next chunk: the
// first hidden character among the last ones that a rule examines together.
func undecided(s string) int {
	at := len(s)
	for i, n := len(s), 0; i > 0 && n < nearby+5; n++ {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
		if isHidden(r) && r != '\n' && r != '\t' || r == blackFlag || r == utf8.RuneError && size == 1 {
			at = i
		}
	}
	for n := 0; at < len(s) && n < 6; n++ { // does not cut within the tags of a flag
		r, _ := utf8.DecodeRuneInString(s[at:])
		before, size := utf8.DecodeLastRuneInString(s[:at])
		if !isTag(r) || !isTag(before) && before != blackFlag {
			break
		}
		at -= size
	}
	return at
}

func isTag(r rune) bool { return r >= 0xe0000 && r <= cancelTag }
