package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"mailroom"
	"mailroom/server/internal/invalid"
)

// Limits of the JSON in a request's body.
const (
	maxDepth   = 64
	maxValues  = 100_000 // values in all: members, elements, and the body itself
	maxMembers = 10_000  // members of one object
)

// CheckJSON refuses a body that is not one JSON value in UTF-8, has a duplicate field, or exceeds
// the limits on depth and number of values. A [Protocol] that is Public calls it, because it
// receives its body unchecked.
func CheckJSON(raw []byte) error { return checkJSON(raw, true) }

// checkBody checks a body of the API.
func checkBody(raw []byte) error { return checkJSON(raw, false) }

// checkJSON checks a body in a few linear passes, without building its values. Field names of the
// API are lower-case; free allows any name.
func checkJSON(raw []byte, free bool) error {
	if !utf8.Valid(raw) {
		return invalid.Malformed("body", "is not valid UTF-8")
	}
	if hasLoneSurrogate(raw) {
		return invalid.Malformed("body", `has a lone surrogate (\ud800 to \udfff): send both halves of the pair`)
	}
	s := jsonScanner{raw: raw}
	if err := s.value(0, free); err != nil {
		return err
	}
	if s.skipSpace(); s.at < len(raw) {
		return invalid.Malformed("body", "has data after its JSON value")
	}
	if !json.Valid(raw) { // the scanner does not check the form of scalars
		return s.malformed()
	}
	return nil
}

// jsonScanner walks once over a body and checks its structure. It leaves the form of scalars to the
// decoder and works out a location only for a refusal.
type jsonScanner struct {
	raw    []byte
	at     int // offset of the next byte
	values int // seen so far

	path [maxDepth]level // the open objects and arrays
}

// level is one open object or array.
type level struct {
	name  []byte // name of the current member, quoted; nil in an array
	index int    // index of the current element
}

// value scans the next value, inside depth open ones. With free, its members may have any name.
func (s *jsonScanner) value(depth int, free bool) error {
	if s.values++; s.values > maxValues {
		return mailroom.Errorf(mailroom.CodeTooLarge, "the body has more than %d values", maxValues)
	}
	s.skipSpace()
	if s.at == len(s.raw) {
		return s.malformed()
	}
	c := s.raw[s.at]
	if c == '"' {
		return s.skipString()
	}
	if c != '{' && c != '[' {
		return s.skipScalar()
	}
	if depth == maxDepth {
		return invalid.Malformed("body", fmt.Sprintf("is nested deeper than %d", maxDepth))
	}
	s.at++
	if c == '{' {
		return s.object(depth, free)
	}
	return s.array(depth, free)
}

func (s *jsonScanner) object(depth int, free bool) error {
	names := names{}
	for n := 0; ; n++ {
		if s.skipSpace(); n == 0 && s.accept('}') {
			return nil
		}
		start := s.at
		if s.at == len(s.raw) || s.raw[s.at] != '"' {
			return s.malformed()
		}
		if err := s.skipString(); err != nil {
			return err
		}
		quoted := s.raw[start:s.at]
		s.path[depth] = level{name: quoted}
		name, err := unquote(quoted)
		switch {
		case err != nil:
			return s.malformed()
		case n == maxMembers:
			return mailroom.Errorf(mailroom.CodeTooLarge, "an object in the body has more than %d members", maxMembers)
		case !names.add(name):
			return invalid.Field(s.location(depth), "duplicate field", nil)
		case !free && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_0123456789") != "":
			return invalid.Field(s.location(depth), "unknown field", nil)
		}
		if s.skipSpace(); !s.accept(':') {
			return s.malformed()
		}
		if err := s.value(depth+1, free || isFreeForm(name)); err != nil {
			return err
		}
		if end, err := s.separator('}'); end || err != nil {
			return err
		}
	}
}

func (s *jsonScanner) array(depth int, free bool) error {
	for n := 0; ; n++ {
		if s.skipSpace(); n == 0 && s.accept(']') {
			return nil
		}
		s.path[depth] = level{index: n}
		if err := s.value(depth+1, free); err != nil {
			return err
		}
		if end, err := s.separator(']'); end || err != nil {
			return err
		}
	}
}

// separator skips a comma, or the character that closes the object or array and reports end.
func (s *jsonScanner) separator(closes byte) (end bool, err error) {
	s.skipSpace()
	switch {
	case s.accept(closes):
		return true, nil
	case s.accept(','):
		return false, nil
	}
	return false, s.malformed()
}

// accept skips c if it is the next byte, and reports whether it was.
func (s *jsonScanner) accept(c byte) bool {
	if s.at == len(s.raw) || s.raw[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *jsonScanner) skipSpace() {
	for s.at < len(s.raw) && isSpace(s.raw[s.at]) {
		s.at++
	}
}

// skipString skips a string.
func (s *jsonScanner) skipString() error {
	for s.at++; s.at < len(s.raw); s.at++ {
		switch s.raw[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return nil
		}
	}
	s.at = len(s.raw)
	return s.malformed()
}

// skipScalar skips a number or literal, up to a byte that can follow one.
func (s *jsonScanner) skipScalar() error {
	start := s.at
	for s.at < len(s.raw) && !endsScalar(s.raw[s.at]) {
		s.at++
	}
	if s.at == start {
		return s.malformed()
	}
	return nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// endsScalar reports whether c ends a number or literal.
func endsScalar(c byte) bool {
	switch c {
	case ',', ':', '"', '[', ']', '{', '}':
		return true
	}
	return isSpace(c)
}

// location is the path of the current member inside depth open values, such as body.parts[1].type.
func (s *jsonScanner) location(depth int) string {
	var b strings.Builder
	b.WriteString("body")
	for _, l := range s.path[:depth+1] {
		if l.name == nil {
			b.WriteString("[" + strconv.Itoa(l.index) + "]")
			continue
		}
		name, err := unquote(l.name)
		if err != nil { // cannot happen: each name was decoded before
			name = "?"
		}
		b.WriteString("." + invalid.Truncate(name))
	}
	return b.String()
}

// malformed returns the decoder's syntax error with its offset.
func (s *jsonScanner) malformed() error {
	var v json.RawMessage
	err := json.Unmarshal(s.raw, &v)
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case !ok:
		return invalid.Malformed("body", "is not JSON")
	case syntax.Offset == int64(len(s.raw)) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return invalid.Malformed("body", "is not JSON: unexpected end")
	}
	return invalid.Malformed("body", fmt.Sprintf("is not JSON: %s, at byte %d", syntax.Error(), syntax.Offset))
}

// unquote decodes a quoted member name.
func unquote(quoted []byte) (string, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var name string
	err := json.Unmarshal(quoted, &name)
	return name, err
}

// names are the member names of one object.
type names struct {
	few  [8]string
	n    int
	many map[string]struct{} // all names, once few is full
}

// add adds a name and reports false if it is there already.
func (m *names) add(name string) bool {
	if m.n < len(m.few) {
		for _, known := range m.few[:m.n] {
			if known == name {
				return false
			}
		}
		m.few[m.n] = name
		m.n++
		return true
	}
	if m.many == nil {
		m.many = make(map[string]struct{}, 4*len(m.few))
		for _, known := range m.few {
			m.many[known] = struct{}{}
		}
	}
	if _, duplicate := m.many[name]; duplicate {
		return false
	}
	m.many[name] = struct{}{}
	return true
}

// isFreeForm reports whether the field of this name holds the caller's own JSON.
func isFreeForm(name string) bool {
	switch name {
	case "options", "metadata", "data", "answer", "agents", "arguments", "body", "checkpoint", "state":
		return true
	}
	return false
}
