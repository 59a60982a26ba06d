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
)

// Limits of the JSON in a request's body.
const (
	maxDepth   = 64
	maxValues  = 100_000 // values in all: members, elements, and the body itself
	maxMembers = 10_000  // members of one object
)

// CheckJSON refuses a body that is not one JSON value in UTF-8, has a member
// twice, or exceeds the limits on depth and number of values. It is for a [Protocol]
// that is Open and so receives its body unchecked.
func CheckJSON(raw []byte) error { return checkJSON(raw, true) }

// checkBody checks a body of the API.
func checkBody(raw []byte) error { return checkJSON(raw, false) }

// checkJSON checks a body in a few linear passes, without building its values.
// free: the names of members are not the API's own.
func checkJSON(raw []byte, free bool) error {
	if !utf8.Valid(raw) {
		return badRequest("body", "is not valid UTF-8")
	}
	if hasLoneSurrogate(raw) {
		return badRequest("body", `has one half of a character (\ud800 to \udfff) without the other`)
	}
	s := jsonScanner{raw: raw}
	if err := s.value(0, free); err != nil {
		return err
	}
	if s.skipSpace(); s.at < len(raw) {
		return badRequest("body", "goes on after its JSON value")
	}
	if !json.Valid(raw) { // a scalar that is none: the scan skips over scalars
		return s.malformed()
	}
	return nil
}

// jsonScanner walks once over a body. It checks the structure and leaves the form of
// scalars to the decoder. Only a refusal works out where in the body it is.
type jsonScanner struct {
	raw    []byte
	at     int // offset of what comes next
	values int // seen so far

	path [maxDepth]level // the open objects and arrays
}

// level is one open object or array.
type level struct {
	name  []byte // of the current member, quoted; nil in an array
	index int    // of the current element
}

// value scans the value that comes next, inside depth open ones. free: members
// below it are the caller's own.
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
		return badRequest("body", fmt.Sprintf("is nested deeper than %d", maxDepth))
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
			return invalidField(s.location(depth), "comes twice", nil)
		case !free && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_0123456789") != "":
			return invalidField(s.location(depth), "unknown field", nil)
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

// separator steps over a comma, or over what closes the object or array.
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

// skipString steps over a string.
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

// skipScalar steps over a number or a literal, to what can follow one.
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

// endsScalar reports whether c ends the number or literal before it.
func endsScalar(c byte) bool {
	switch c {
	case ',', ':', '"', '[', ']', '{', '}':
		return true
	}
	return isSpace(c)
}

// location is the location of the member that is current inside depth open values.
func (s *jsonScanner) location(depth int) string {
	var b strings.Builder
	b.WriteString("body")
	for _, l := range s.path[:depth+1] {
		if l.name == nil {
			b.WriteString("[" + strconv.Itoa(l.index) + "]")
			continue
		}
		name, err := unquote(l.name)
		if err != nil { // every name of the path was read before
			name = "?"
		}
		b.WriteString("." + truncate(name))
	}
	return b.String()
}

// malformed says what the decoder finds wrong with the body.
func (s *jsonScanner) malformed() error {
	var v json.RawMessage
	err := json.Unmarshal(s.raw, &v)
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case !ok:
		return badRequest("body", "is not JSON")
	case syntax.Offset == int64(len(s.raw)) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return badRequest("body", "is not JSON: it ends in the middle")
	}
	return badRequest("body", fmt.Sprintf("is not JSON: %s, at byte %d", syntax.Error(), syntax.Offset))
}

// unquote is the name of a member.
func unquote(quoted []byte) (string, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var name string
	err := json.Unmarshal(quoted, &name)
	return name, err
}

// names are those of the members of one object.
type names struct {
	few  [8]string
	n    int
	many map[string]struct{} // all of them, once there are more than a few
}

// add reports whether name is not among them yet.
func (m *names) add(name string) bool {
	if m.n < len(m.few) {
		for _, one := range m.few[:m.n] {
			if one == name {
				return false
			}
		}
		m.few[m.n] = name
		m.n++
		return true
	}
	if m.many == nil {
		m.many = make(map[string]struct{}, 4*len(m.few))
		for _, one := range m.few {
			m.many[one] = struct{}{}
		}
	}
	if _, twice := m.many[name]; twice {
		return false
	}
	m.many[name] = struct{}{}
	return true
}

// isFreeForm are the fields whose value is the caller's own JSON.
func isFreeForm(name string) bool {
	switch name {
	case "options", "metadata", "data", "answer", "agents", "arguments", "body", "checkpoint", "state":
		return true
	}
	return false
}
