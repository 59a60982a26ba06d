package tracker

import (
	"errors"
	"math/bits"
	"strings"
	"time"
)

// errSyntax reports text that is not JSON. It has no position, because the whole line is rejected.
var errSyntax = errors.New("not JSON")

// errObject reports JSON that is not an object.
var errObject = errors.New("not a JSON object")

// errNoID reports an object without an id.
var errNoID = errors.New("no id")

// maxDepth bounds the nesting of values.
const maxDepth = 1000

// field is one member of an object: its decoded name, and key and value as written.
type field struct{ name, key, raw string }

// fields returns the members of an object, including duplicates. Values are checked for syntax
// only.
func fields(text string) ([]field, error) { return appendFields(make([]field, 0, 24), text) }

// appendFields appends the members of an object to found.
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

// scanner reads JSON text (RFC 8259). A tracker reads thousands of issues to change one, so the
// text is scanned once, and unknown members only for their syntax. An object is read by
//
//	s.open('{')
//	for first := true; s.more('}', first); first = false {
//		name := s.name()
//		raw := s.value(0)
//	}
//	err := s.object()
//
// and a list likewise. Values read before a syntax error are returned.
type scanner struct {
	text   string
	at     int  // position; the end of the text once bad is set
	bad    bool // the text is not JSON
	simple bool // the last string has no escapes and is ASCII

	// The last two times: most times of an issue equal one of them.
	times [2]timeText
	older int // index of the older one
}

// timeText is a parsed time with its text.
type timeText struct {
	text string
	at   time.Time
}

// reset starts reading another text. The cached times stay.
func (s *scanner) reset(text string) { s.text, s.at, s.bad = text, 0, false }

func (s *scanner) fail() { s.bad, s.at = true, len(s.text) }

// open reads an opening bracket.
func (s *scanner) open(bracket byte) {
	s.space()
	s.expect(bracket)
}

// more moves to the next member or element. At the closing bracket it returns false.
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

// name reads the name of a member and moves to its value.
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

// acceptKey reads the name of a member if it is written exactly as name, with quotes and colon.
func (s *scanner) acceptKey(name string) bool {
	if !strings.HasPrefix(s.text[s.at:], name) {
		return false
	}
	s.at += len(name)
	s.space()
	return true
}

// string reads and decodes a string.
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

// object returns an error if the text is not exactly one JSON object.
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

// expect reads c. Any other byte is a syntax error.
func (s *scanner) expect(c byte) {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
	} else {
		s.fail()
	}
}

// value reads any value and returns its text.
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

// skipString reads a string without decoding it.
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
		default: // unexpected end, or a control character
			s.fail()
		}
	}
}

// plainPrefix returns the length of the prefix without quotes, backslashes and control characters,
// and whether it is ASCII. It examines eight bytes at a time, because most of a file is text that
// no command needs.
func plainPrefix(text string) (n int, ascii bool) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	var all uint64
	for ; n+8 <= len(text); n += 8 {
		t := text[n : n+8]
		w := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		quote, slash := w^ones*'"', w^ones*'\\'
		// A zero byte, or one below a space, borrows from its highest bit. Bytes after the first
		// match may be wrong; the first is right.
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

// escape reads the rest of an escape sequence.
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

// digits reads one or more digits.
func (s *scanner) digits() {
	begin := s.at
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.at++
	}
	if s.at == begin {
		s.fail()
	}
}
