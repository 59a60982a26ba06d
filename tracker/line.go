package tracker

import (
	"bytes"
	"encoding/json"
	"fmt"
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
func (c *codec) read(line []byte) (*Issue, error) {
	parts, err := fields(line)
	if err != nil {
		return nil, err
	}
	it := &Issue{line: parts, Priority: Normal}
	for _, f := range parts {
		i, known := c.byName[f.name]
		if !known {
			continue
		}
		if err := c.members[i].read(it, f.raw); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if it.ID == "" {
		return nil, fmt.Errorf("it has no id")
	}
	return it, nil
}

// write makes the line of an issue. A member stays as it was written unless its
// value is another than it was read as, whatever the tracker knows of it.
func (c *codec) write(it *Issue) []byte {
	was := &Issue{Priority: Normal}
	had := map[string]bool{}
	for _, f := range it.line {
		if i, known := c.byName[f.name]; known {
			had[f.name] = true
			_ = c.members[i].read(was, f.raw) // it was read before
		}
	}
	out := []byte{'{'}
	add := func(key, raw []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), raw...)
	}
	// Members in the order that the line has, new ones before the first known
	// one that comes after them.
	next := 0
	fresh := func(until int) {
		for ; next < until; next++ {
			m := c.members[next]
			if raw := m.write(it); raw != nil && !had[m.name] && (it.line == nil || !bytes.Equal(raw, m.write(was))) {
				add(encode(m.name), raw)
			}
		}
	}
	for _, f := range it.line {
		i, known := c.byName[f.name]
		if !known {
			add(f.key, f.raw)
			continue
		}
		fresh(i)
		raw := c.members[i].write(it)
		switch before := c.members[i].write(was); {
		case bytes.Equal(raw, before):
			add(f.key, f.raw)
		case raw != nil:
			add(f.key, raw)
		}
	}
	fresh(len(c.members))
	return append(out, '}')
}

// marshal encodes without escapes for HTML, which nobody wants to read in a diff.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func readJSON(raw []byte, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return notA("fitting value", raw)
	}
	return nil
}

func readMoment(raw []byte, into *time.Time) error {
	s, ok := plainString(raw)
	if !ok {
		if string(raw) == "null" {
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

func notA(what string, raw []byte) error {
	const most = 60
	shown := raw
	if len(shown) > most {
		shown = append(bytes.Clone(shown[:most]), "…"...)
	}
	return fmt.Errorf("%s is not a %s", bytes.ToValidUTF8(shown, []byte("?")), what)
}
