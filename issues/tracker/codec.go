package tracker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/internal/jsontext"
)

// codec reads and writes the lines of an issue file. It is immutable once made.
type codec struct {
	members []member
	keys    []string // quoted names with the colon, as most writers format them
	byName  map[string]int
	shared  map[string]bool // see [codec.forShared]
}

func newCodec() *codec {
	c := &codec{members: members(), byName: map[string]int{}}
	for i, m := range c.members {
		c.byName[m.name] = i
		c.keys = append(c.keys, encodeText(m.name)+":")
	}
	return c
}

// forShared returns a codec that merges lines of a file in which several issues share one of these ids. Two references
// to such an id that were made apart may mean different issues, so it keeps both.
func (c *codec) forShared(ids map[string]bool) *codec {
	out := *c
	out.shared = ids
	return &out
}

// read parses a line into an issue. An issue must have an id. A member of the wrong type counts as
// missing and is written back unchanged.
func (c *codec) read(s *scanner, line string, it *Issue) error {
	_, err := c.decode(s, line, it)
	return err
}

// decode implements read. It also returns an error for a malformed member.
func (c *codec) decode(s *scanner, line string, it *Issue) (wrong, err error) {
	it.line, it.unchanged, it.lazy, it.Priority = line, true, false, PriorityNormal
	at := 0
	s.reset(line)
	s.json.Open('{')
	for s.json.More('}') {
		i, known := c.next(s, at)
		if !known {
			it.foreign = true
			s.value()
			continue
		}
		at = i + 1
		if err := c.members[i].read(it, s); err != nil && wrong == nil {
			wrong = fmt.Errorf("%s: %w", c.members[i].name, err)
		}
	}
	it.malformed = wrong != nil
	if err = checkObject(&s.json, line); err == nil && it.ID == "" {
		err = cmp.Or(wrong, errNoID)
	}
	return wrong, err
}

// readID parses only the id; [codec.complete] parses the other members.
func (c *codec) readID(s *scanner, line string, it *Issue) error {
	it.line, it.unchanged, it.lazy = line, true, true
	s.reset(line)
	s.json.Open('{')
	for s.json.More('}') {
		if s.json.Name() != "id" {
			s.value()
		} else if err := readText(s, &it.ID); err != nil {
			it.ID = ""
		}
	}
	err := checkObject(&s.json, line)
	if err == nil && it.ID == "" {
		err = c.read(s, line, it) // read returns the error that describes the missing id
	}
	return err
}

// complete parses the other members of an issue after readID.
func (c *codec) complete(s *scanner, it *Issue) {
	if it.lazy {
		_ = c.read(s, it.line, it) // cannot fail: the line was checked when its id was read
	}
}

// malformedMember returns an error that names a member of the line that has the wrong type, or nil.
func (c *codec) malformedMember(it *Issue) error {
	if !it.malformed {
		return nil
	}
	wrong, err := c.decode(&scanner{}, it.line, &Issue{})
	return cmp.Or(err, wrong)
}

// next reads the name of a member and returns its index among the known ones. It first tries the members that usually
// follow the one at index at.
func (c *codec) next(s *scanner, at int) (i int, known bool) {
	const few = 5
	for i = at; i < min(at+few, len(c.keys)); i++ {
		if s.json.Accept(c.keys[i]) {
			return i, true
		}
	}
	i, known = c.byName[s.json.Name()]
	return i, known
}

// write encodes an issue. A member whose value did not change keeps its original text, and unknown
// members are preserved.
func (c *codec) write(it *Issue) string {
	was := &Issue{Priority: PriorityNormal}
	had := make([]bool, len(c.members))
	line := it.parts()
	for _, f := range line {
		if i, known := c.byName[f.name]; known {
			had[i] = true
			_ = c.members[i].read(was, newScanner(f.raw)) // parsed before
		}
	}
	var out strings.Builder
	const extra = 64 // bytes for new members
	out.Grow(len(it.line) + extra)
	add := func(key, raw string) {
		if out.Len() > 0 {
			out.WriteByte(',')
		} else {
			out.WriteByte('{')
		}
		out.WriteString(key)
		out.WriteByte(':')
		out.WriteString(raw)
	}
	// Keep the order of the line. A new member goes before the first known member that follows it
	// in the standard order.
	next := 0
	fresh := func(until int) {
		for ; next < until; next++ {
			m := c.members[next]
			if had[next] || it.line != "" && m.same(it, was) {
				continue
			}
			if raw := m.write(it); raw != "" {
				add(encodeText(m.name), raw)
			}
		}
	}
	for _, f := range line {
		i, known := c.byName[f.name]
		if !known {
			add(f.key, f.raw)
			continue
		}
		fresh(i)
		if m := c.members[i]; m.same(it, was) {
			add(f.key, f.raw)
		} else if raw := m.write(it); raw != "" {
			add(f.key, raw)
		}
	}
	fresh(len(c.members))
	out.WriteByte('}')
	return out.String()
}

// SetMember adds a member to the end of a line. An existing member of that name is replaced if
// replace is set and kept otherwise.
func SetMember(line, name, raw string, replace bool) string {
	parts, err := fields(line)
	if err != nil {
		return line // the line is not an issue
	}
	at := slices.IndexFunc(parts, func(f field) bool { return f.name == name })
	switch {
	case at < 0:
		parts = append(parts, field{key: encodeText(name), raw: raw})
	case replace:
		parts[at].raw = raw
	}
	return encodeObject(parts)
}

// HasForeign reports whether the issue's line has an unknown member of this name.
func (it *Issue) HasForeign(name string) bool {
	return it.foreign && slices.ContainsFunc(it.parts(), func(f field) bool { return f.name == name })
}

// parts returns the members of the line that the issue was read from.
func (it *Issue) parts() []field {
	if it.line == "" {
		return nil
	}
	parts, err := fields(it.line)
	if err != nil {
		panic(err) // parsed before
	}
	return parts
}

// encodeText encodes a string without HTML escapes.
func encodeText(s string) string {
	const quotes = 2
	return string(jsontext.AppendText(make([]byte, 0, len(s)+quotes), s))
}

// encode encodes a value without HTML escapes.
func encode(v any) string {
	b, err := marshal(v)
	if err != nil {
		panic(err) // strings, numbers and times of years 1 to 9999 always encode
	}
	return b
}

// marshal encodes JSON without HTML escapes, which would make diffs hard to read.
func marshal(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func readJSON(raw string, into any) error {
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		return errNotA("valid value", raw)
	}
	return nil
}

func readNumber[T int | int64](s *scanner, into *T) error {
	raw := s.value()
	n, err := strconv.Atoi(raw)
	if err != nil {
		return readJSON(raw, into)
	}
	*into = T(n)
	return nil
}

func readText[T ~string](s *scanner, into *T) error {
	if s.json.Peek() != '"' {
		return readNull(s, "text", func() { *into = "" })
	}
	*into = T(s.json.ReadString())
	return nil
}

func readTime(s *scanner, into *time.Time) error {
	if s.json.Peek() != '"' {
		return readNull(s, "time", func() {})
	}
	begin := s.json.Offset()
	text := s.json.ReadString()
	for _, known := range s.times {
		if known.text == text && text != "" {
			*into = known.at
			return nil
		}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return errNotA("time", s.json.Since(begin))
	}
	s.times[s.older] = timeText{text, at}
	s.older = 1 - s.older
	*into = at
	return nil
}

// readNull reads a value of an unexpected type. A null calls clear; any other value is an error.
func readNull(s *scanner, what string, clear func()) error {
	if raw := s.value(); raw != "null" {
		return errNotA(what, raw)
	}
	clear()
	return nil
}

func errNotA(what, raw string) error {
	const most = 60
	shown := raw
	if len(shown) > most {
		shown = shown[:most] + "…"
	}
	return fmt.Errorf("%s is not a %s", strings.ToValidUTF8(shown, "?"), what)
}
