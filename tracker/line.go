package tracker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// codec reads and writes lines. It does not change once made.
type codec struct {
	members []member
	byName  map[string]int
}

func newCodec() *codec {
	c := &codec{members: members(), byName: map[string]int{}}
	for i, m := range c.members {
		c.byName[m.name] = i
	}
	return c
}

// read makes an issue of a line. An issue without an id is none.
func (c *codec) read(line string) (*Issue, error) {
	it := &Issue{line: line, Priority: Normal}
	var wrong error
	err := walk(line, func(f field) {
		if i, known := c.byName[f.name]; known && wrong == nil {
			if err := c.members[i].read(it, f.raw); err != nil {
				wrong = fmt.Errorf("%s: %w", f.name, err)
			}
		}
	})
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err
	}
	if it.ID == "" {
		return nil, fmt.Errorf("it has no id")
	}
	return it, nil
}

// write makes the line of an issue. A member stays as it was written unless its
// value is another than it was read as, whatever the tracker knows of it.
func (c *codec) write(it *Issue) string {
	was := &Issue{Priority: Normal}
	had := map[string]bool{}
	line := it.parts()
	for _, f := range line {
		if i, known := c.byName[f.name]; known {
			had[f.name] = true
			_ = c.members[i].read(was, f.raw) // it was read before
		}
	}
	var out []field
	add := func(key, raw string) { out = append(out, field{key: key, raw: raw}) }
	// Members in the order that the line has, new ones before the first known
	// one that comes after them.
	next := 0
	fresh := func(until int) {
		for ; next < until; next++ {
			m := c.members[next]
			if raw := m.write(it); raw != "" && !had[m.name] && (it.line == "" || raw != m.write(was)) {
				add(encode(m.name), raw)
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
		raw := c.members[i].write(it)
		switch before := c.members[i].write(was); {
		case raw == before:
			add(f.key, f.raw)
		case raw != "":
			add(f.key, raw)
		}
	}
	fresh(len(c.members))
	return joined(out)
}

// Has reports whether the line that the issue was read from has a member.
func (it *Issue) Has(name string) bool {
	for _, f := range it.parts() {
		if f.name == name {
			return true
		}
	}
	return false
}

// parts are the members of the line that the issue was read from.
func (it *Issue) parts() []field {
	if it.line == "" {
		return nil
	}
	parts, err := fields(it.line)
	if err != nil {
		panic(err) // it was read before
	}
	return parts
}

// marshal encodes without escapes for HTML, which nobody wants to read in a diff.
func marshal(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func readJSON(raw string, into any) error {
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		return notA("fitting value", raw)
	}
	return nil
}

func readNumber(raw string, into *int) error {
	n, err := strconv.Atoi(raw)
	if err != nil {
		return readJSON(raw, into)
	}
	*into = n
	return nil
}

func readMoment(raw string, into *time.Time) error {
	s, ok := plainString(raw)
	if !ok {
		if raw == "null" {
			return nil
		}
		return notA("time", raw)
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return notA("time", raw)
	}
	*into = at
	return nil
}

func notA(what, raw string) error {
	const most = 60
	shown := raw
	if len(shown) > most {
		shown = shown[:most] + "…"
	}
	return fmt.Errorf("%s is not a %s", strings.ToValidUTF8(shown, "?"), what)
}
