package tracker

import (
	"errors"
	"math/bits"
	"strings"
	"time"
)

// errSyntax says that text is not JSON. Where it goes wrong does not matter: the
// whole line is put aside.
var errSyntax = errors.New("it is not JSON")

// errObject says that text is JSON and no object.
var errObject = errors.New("it is not a JSON object")

// errNoID says that an object is no issue.
var errNoID = errors.New("it has no id")

// maxDepth bounds how deep values may nest.
const maxDepth = 1000

// field is one member of an object: its name, decoded, and both as they are
// written.
type field struct{ name, key, raw string }

// fields takes an object apart, without a look into its values but for their
// syntax. Of a name that comes twice both are returned.
func fields(text string) ([]field, error) { return appendFields(make([]field, 0, 24), text) }

// appendFields is fields for who has room for them.
func appendFields(found []field, text string) ([]field, error) {
	s := scanner{text: text}
	s.open('{')
	for first := true; s.more('}', first); first = false {
		begin := s.at
		name := s.string()
		key := text[begin:s.at]
		s.colon()
		found = append(found, field{name, key, s.value(0)})
	}
	if err := s.object(); err != nil {
		return nil, err
	}
	return found, nil
}

// scanner walks over JSON text (RFC 8259). A tracker reads thousands of issues to
// change one, so it is walked over once, and what nobody knows only for its
// syntax. An object is taken apart by
//
//	s.open('{')
//	for first := true; s.more('}', first); first = false {
//		name := s.name()
//		raw := s.value(0)
//	}
//	err := s.object()
//
// and a list likewise. What comes before the text goes wrong is given.
type scanner struct {
	text   string
	at     int  // the end, once it is bad
	bad    bool // it is not JSON
	simple bool // the last text is what stands between its quotes

	// The last two moments: an issue is created, and changed, and all of its others
	// are mostly one of these.
	times [2]timeText
	older int // of them
}

// timeText is a time, as it is written and as it is.
type timeText struct {
	text string
	at   time.Time
}

// reset turns to another text. What was learnt from the last one stays.
func (s *scanner) reset(text string) { s.text, s.at, s.bad = text, 0, false }

func (s *scanner) fail() { s.bad, s.at = true, len(s.text) }

// open takes the bracket that the text begins with.
func (s *scanner) open(bracket byte) {
	s.space()
	s.expect(bracket)
}

// more moves to the next member or element, or takes the bracket at the end and
// returns false.
func (s *scanner) more(end byte, first bool) bool {
	s.space()
	switch {
	case s.peek() == end:
		s.at++
		return false
	case !first:
		s.expect(',')
		s.space()
	}
	return !s.bad
}

// name takes the name of a member, and moves to its value.
func (s *scanner) name() string {
	name := s.string()
	s.colon()
	return name
}

func (s *scanner) colon() {
	s.space()
	s.expect(':')
	s.space()
}

// acceptKey takes the name of a member if it is this one, as it is mostly written:
// with its quotes and the colon.
func (s *scanner) acceptKey(name string) bool {
	if !strings.HasPrefix(s.text[s.at:], name) {
		return false
	}
	s.at += len(name)
	s.space()
	return true
}

// string takes a text, and decodes it.
func (s *scanner) string() string {
	begin := s.at
	s.skipString()
	switch {
	case s.bad:
		return ""
	case s.simple:
		return s.text[begin+1 : s.at-1]
	}
	return decodeText(s.text[begin:s.at])
}

// object says what is wrong with a text that should be an object and no more.
func (s *scanner) object() error {
	if !s.bad && s.atEnd() {
		return nil
	}
	all := scanner{text: s.text}
	all.space()
	if all.peek() != '{' {
		if all.value(0); !all.bad && all.atEnd() {
			return errObject
		}
	}
	return errSyntax
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.text) && s.text[s.at] <= ' ' {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) atEnd() bool {
	s.space()
	return s.at == len(s.text)
}

// expect takes c, or the text is bad.
func (s *scanner) expect(c byte) {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
	} else {
		s.fail()
	}
}

// value takes any value, and returns it as it is written.
func (s *scanner) value(depth int) string {
	begin := s.at
	if depth > maxDepth {
		s.fail()
	}
	switch s.peek() {
	case '"':
		s.skipString()
	case '{':
		s.at++
		for first := true; s.more('}', first); first = false {
			s.skipString()
			s.colon()
			s.value(depth + 1)
		}
	case '[':
		s.at++
		for first := true; s.more(']', first); first = false {
			s.value(depth + 1)
		}
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
	return s.text[begin:s.at]
}

// skipString takes a text, and does not decode it.
func (s *scanner) skipString() {
	s.expect('"')
	s.simple = true
	for !s.bad {
		n, ascii := plainPrefix(s.text[s.at:])
		s.at += n
		s.simple = s.simple && ascii
		switch s.peek() {
		case '"':
			s.at++
			return
		case '\\':
			s.at++
			s.simple = false
			s.escape()
		default: // it ends here, or a control character comes
			s.fail()
		}
	}
}

// plainPrefix is how many bytes at the beginning are neither a quote, a backslash nor a
// control character, and whether all of them are ASCII. It looks at eight at a
// time, because most of a tracker is text that nobody asks for.
func plainPrefix(text string) (n int, ascii bool) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	var all uint64
	for ; n+8 <= len(text); n += 8 {
		t := text[n : n+8]
		w := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		quote, slash := w^ones*'"', w^ones*'\\'
		// A byte that is zero, or below a space, borrows from its highest bit; what
		// follows may be wrong, the first one is right.
		found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & highs
		if found != 0 {
			end := bits.TrailingZeros64(found) &^ 7
			all |= w & (1<<end - 1)
			return n + end/8, all&highs == 0
		}
		all |= w
	}
	for ; n < len(text); n++ {
		c := text[n]
		if c == '"' || c == '\\' || c < ' ' {
			break
		}
		all |= uint64(c)
	}
	return n, all&highs == 0
}

// escape takes what follows a backslash.
func (s *scanner) escape() {
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
	case 'u':
		s.at++
		for range 4 {
			if c := s.peek(); !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				s.fail()
				return
			}
			s.at++
		}
	default:
		s.fail()
	}
}

func (s *scanner) literal(word string) {
	if !strings.HasPrefix(s.text[s.at:], word) {
		s.fail()
		return
	}
	s.at += len(word)
}

func (s *scanner) number() {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else {
		s.digits()
	}
	if s.peek() == '.' {
		s.at++
		s.digits()
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		s.digits()
	}
}

// digits takes one or more.
func (s *scanner) digits() {
	begin := s.at
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.at++
	}
	if s.at == begin {
		s.fail()
	}
}
