package tracker

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// errSyntax says that text is not JSON. Where it goes wrong does not matter: the
// whole line is put aside.
var errSyntax = errors.New("it is not JSON")

// errObject says that text is JSON and no object.
var errObject = errors.New("it is not a JSON object")

// maxDepth bounds how deep values may nest.
const maxDepth = 1000

// field is one member of an object: its name, decoded, and both as they are
// written.
type field struct {
	name     string
	key, raw string
}

// fields takes an object apart, without a look into its values but for their
// syntax. A tracker reads thousands of issues to change one, and most of what is
// in them nobody asks for. Of a name that comes twice both are returned.
func fields(text string) ([]field, error) {
	found := make([]field, 0, 16)
	if err := walk(text, func(f field) { found = append(found, f) }); err != nil {
		return nil, err
	}
	return found, nil
}

// walk is fields one by one. What comes before the text goes wrong is given.
func walk(text string, take func(field)) error {
	s := scanner{text: text}
	s.space()
	if s.peek() != '{' {
		if s.value(0); s.bad || !s.atEnd() {
			return errSyntax
		}
		return errObject
	}
	s.members(func(name, raw string) {
		key, ok := plainString(name)
		if !ok {
			s.bad = true
			return
		}
		take(field{key, name, raw})
	}, 0)
	if s.bad || !s.atEnd() {
		return errSyntax
	}
	return nil
}

// elements takes an array apart.
func elements(text string) ([]string, error) {
	s := scanner{text: text}
	s.space()
	if s.peek() != '[' {
		return nil, errors.New("it is not a list")
	}
	var found []string
	s.items(func(raw string) { found = append(found, raw) }, 0)
	if s.bad || !s.atEnd() {
		return nil, errSyntax
	}
	return found, nil
}

// scanner walks over JSON text (RFC 8259). Once bad it stays where it is.
type scanner struct {
	text string
	at   int
	bad  bool
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.bad || s.at >= len(s.text) {
		return 0
	}
	return s.text[s.at]
}

func (s *scanner) space() {
	for s.at < len(s.text) {
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
	if s.peek() != c {
		s.bad = true
		return
	}
	s.at++
}

func (s *scanner) value(depth int) {
	if depth > maxDepth {
		s.bad = true
	}
	switch c := s.peek(); {
	case c == '{':
		s.members(func(_, _ string) {}, depth)
	case c == '[':
		s.items(func(string) {}, depth)
	case c == '"':
		s.str()
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	case c == '-' || c >= '0' && c <= '9':
		s.number()
	default:
		s.bad = true
	}
}

func (s *scanner) members(take func(name, raw string), depth int) {
	s.list('{', '}', func() {
		begin := s.at
		s.str()
		name := s.text[begin:s.at]
		s.space()
		s.expect(':')
		s.space()
		begin = s.at
		s.value(depth + 1)
		if !s.bad {
			take(name, s.text[begin:s.at])
		}
	})
}

func (s *scanner) items(take func(raw string), depth int) {
	s.list('[', ']', func() {
		begin := s.at
		s.value(depth + 1)
		if !s.bad {
			take(s.text[begin:s.at])
		}
	})
}

// list walks over what stands between two brackets, with commas between.
func (s *scanner) list(open, end byte, one func()) {
	s.expect(open)
	s.space()
	if s.peek() == end {
		s.at++
		return
	}
	for !s.bad {
		s.space()
		one()
		s.space()
		if s.peek() == end {
			s.at++
			return
		}
		s.expect(',')
	}
}

func (s *scanner) str() {
	s.expect('"')
	for !s.bad && s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '"':
			return
		case c == '\\':
			s.escape()
		case c < ' ':
			s.bad = true
		}
	}
	s.bad = true
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
				s.bad = true
				return
			}
			s.at++
		}
	default:
		s.bad = true
	}
}

func (s *scanner) literal(word string) {
	if !strings.HasPrefix(s.text[s.at:], word) {
		s.bad = true
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
		s.bad = true
	}
}

// plainString decodes a JSON string, which has been scanned.
func plainString(raw string) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inside := raw[1 : len(raw)-1]
	if strings.IndexByte(inside, '\\') >= 0 || !utf8.ValidString(inside) {
		var text string
		err := json.Unmarshal([]byte(raw), &text)
		return text, err == nil
	}
	return inside, true
}
