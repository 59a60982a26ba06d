package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// Items returns the items of the array at path, a name of a member for each level. It returns nothing if there is no
// such array, and an error if text is no JSON.
func Items(text []byte, path ...string) (items [][]byte, err error) {
	root, err := parseSpans(text)
	if err != nil {
		return nil, err
	}
	at := root
	for _, name := range path {
		if at = at.member(name); at == nil {
			return nil, nil
		}
	}
	if text[at.start] != '[' {
		return nil, nil
	}
	for _, s := range at.children {
		items = append(items, text[s.start:s.end])
	}
	return items, nil
}

// AddItem returns text with an item more in the array at path. It makes what is missing of the path, follows the
// indentation of the neighbours, and changes no other byte. It fails if a value on the path is of another type.
func AddItem(text []byte, item any, path ...string) ([]byte, error) {
	root, err := parseSpans(text)
	if err != nil {
		return nil, err
	}
	at := root
	for len(path) > 0 {
		if text[at.start] != '{' {
			return nil, errOtherType
		}
		next := at.member(path[0])
		if next == nil {
			break
		}
		at, path = next, path[1:]
	}
	if len(path) == 0 {
		if text[at.start] != '[' {
			return nil, errOtherType
		}
		return at.insert(text, root, "", item)
	}
	var value any = []any{item}
	for _, name := range slices.Backward(path[1:]) {
		value = map[string]any{name: value}
	}
	return at.insert(text, root, path[0], value)
}

var errOtherType = errors.New("holds a value of another type there")

// RemoveItems returns text without the items of the array at path that drop reports, and without the values on the path
// that are empty then. It changes no other byte.
func RemoveItems(text []byte, drop func(item []byte) bool, path ...string) ([]byte, error) {
	for {
		root, err := parseSpans(text)
		if err != nil {
			return nil, err
		}
		way := []*span{root}
		for _, name := range path {
			next := way[len(way)-1].member(name)
			if next == nil {
				return text, nil
			}
			way = append(way, next)
		}
		list := way[len(way)-1]
		if text[list.start] != '[' {
			return text, nil
		}
		n := slices.IndexFunc(list.children, func(s *span) bool { return drop(text[s.start:s.end]) })
		if n < 0 {
			return text, nil
		}
		last := len(way) - 1
		for ; last > 0 && len(way[last].children) == 1; last-- { // it would be empty
			n = slices.Index(way[last-1].children, way[last])
		}
		text = way[last].remove(text, n)
	}
}

// span is a value in a text. A container has its values as children.
type span struct {
	start, end int
	begin      int    // of the name of a member, else start
	name       string // of a member
	children   []*span
}

// member returns the member of an object, or nil. Of two with one name the last one counts, as in JavaScript.
func (s *span) member(name string) *span {
	for _, m := range slices.Backward(s.children) {
		if m.begin != m.start && m.name == name {
			return m
		}
	}
	return nil
}

// insert appends a value to a container; name is its name in an object.
func (s *span) insert(text []byte, root *span, name string, value any) ([]byte, error) {
	unit := "  "
	if len(root.children) > 0 {
		if _, indent, ok := cutLastLine(gap(text, root.children[0].begin)); ok && indent != "" {
			unit = indent
		}
	}
	var before, after string // whitespace around the new value
	at := s.end - 1
	if n := len(s.children); n > 0 {
		at = s.children[n-1].end
		before = gap(text, s.children[n-1].begin)
	} else if bytes.ContainsRune(text, '\n') {
		line := text[bytes.LastIndexByte(text[:s.start], '\n')+1:]
		indent := string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
		before, after = "\n"+indent+unit, "\n"+indent
		at = s.start + 1
	}
	var b bytes.Buffer
	if name != "" {
		b.Write(AppendText(nil, name))
		b.WriteByte(':')
	}
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if _, indent, ok := cutLastLine(before); ok {
		if name != "" {
			b.WriteByte(' ')
		}
		e.SetIndent(indent, unit)
	}
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	added := before + strings.TrimSuffix(b.String(), "\n") + after
	if len(s.children) > 0 {
		added = "," + added
		return slices.Concat(text[:at], []byte(added), text[at:]), nil
	}
	return slices.Concat(text[:at], []byte(added), text[s.end-1:]), nil
}

// remove removes the n-th value of a container.
func (s *span) remove(text []byte, n int) []byte {
	from, to := s.start+1, s.end-1
	switch {
	case n > 0:
		from, to = s.children[n-1].end, s.children[n].end
	case len(s.children) > 1:
		from, to = s.children[0].begin, s.children[1].begin
	}
	return slices.Concat(text[:from], text[to:])
}

// gap returns the whitespace in front of an offset.
func gap(text []byte, at int) string {
	return string(text[len(bytes.TrimRight(text[:at], " \t\r\n")):at])
}

// cutLastLine returns what is before and after the last newline.
func cutLastLine(s string) (before, after string, found bool) {
	n := strings.LastIndexByte(s, '\n')
	if n < 0 {
		return "", "", false
	}
	return s[:n], s[n+1:], true
}

// parseSpans returns the value that is all of text.
func parseSpans(text []byte) (*span, error) {
	var all json.RawMessage // also bounds the depth
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	p := spanParser{text: text, tokens: json.NewDecoder(bytes.NewReader(text))}
	p.tokens.UseNumber() // some are too large for a float64
	s := p.value(p.next())
	return s, p.err
}

type spanParser struct {
	text   []byte
	tokens *json.Decoder
	err    error
}

// next returns where the next token begins.
func (p *spanParser) next() int {
	at := int(p.tokens.InputOffset())
	return len(p.text) - len(bytes.TrimLeft(p.text[at:], " \t\r\n,:"))
}

func (p *spanParser) token() json.Token {
	t, err := p.tokens.Token()
	p.err = errors.Join(p.err, err)
	return t
}

// value parses the value at start. The text was validated.
func (p *spanParser) value(start int) *span {
	s := &span{start: start, begin: start}
	delim, _ := p.token().(json.Delim)
	for delim != 0 && p.err == nil && p.tokens.More() {
		begin, name := p.next(), ""
		if delim == '{' {
			name, _ = p.token().(string)
		}
		child := p.value(p.next())
		child.begin, child.name = begin, name
		s.children = append(s.children, child)
	}
	if delim != 0 {
		p.token()
	}
	s.end = int(p.tokens.InputOffset())
	return s
}
