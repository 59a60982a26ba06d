package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"mailroom"
	"mailroom/internal/jsontext"
)

// Limits of the JSON in a request's body.
const (
	MaxDepth   = 64
	MaxValues  = 100_000 // values in all: members, elements, and the body itself
	maxMembers = 10_000  // members of one object
)

// CheckJSON refuses a body that is not one JSON value in UTF-8, has a duplicate field, or exceeds the
// limits on depth and number of values. It works in one pass, after two quick ones over its bytes, without building its
// values. Field names of the API are lower-case; free allows any name.
func CheckJSON(raw []byte, free bool) error {
	if !utf8.Valid(raw) {
		return Malformed("body", "is not valid UTF-8")
	}
	if jsontext.HasLoneSurrogate(raw) {
		return Malformed("body", `has a lone surrogate (\ud800 to \udfff): send both halves of the pair`)
	}
	c := bodyCheck{text: jsontext.Scan(raw)}
	err := c.value(0, free)
	switch {
	case err != nil:
		return err
	case c.text.Failed():
		return malformed(raw)
	case !c.text.AtEnd():
		return Malformed("body", "has data after its JSON value")
	}
	return nil
}

// bodyCheck checks the structure of a body. It works out a location only for a refusal.
type bodyCheck struct {
	text   jsontext.Scanner[[]byte]
	values int             // seen so far
	path   [MaxDepth]level // the open objects and arrays
}

// level is one open object or array.
type level struct {
	name  []byte // name of the current member; nil in an array
	index int    // index of the current element
}

// value checks the next value of the body. depth is the number of objects and arrays around the value. If free is set,
// the members in the value may have any name. At a syntax error, value returns nil and c.text has failed.
func (c *bodyCheck) value(depth int, free bool) error {
	if c.values++; c.values > MaxValues {
		return mailroom.Errorf(mailroom.CodeTooLarge, "the body has more than %d values", MaxValues)
	}
	switch first := c.text.Peek(); {
	case first != '{' && first != '[':
		c.text.SkipScalar()
		return nil
	case depth == MaxDepth:
		return Malformed("body", fmt.Sprintf("is nested deeper than %d", MaxDepth))
	case first == '{':
		return c.object(depth, free)
	}
	return c.array(depth, free)
}

func (c *bodyCheck) object(depth int, free bool) error {
	var names jsontext.Names
	c.text.Open('{')
	for n := 0; c.text.More('}'); n++ {
		name := c.text.ReadString()
		c.path[depth] = level{name: name}
		switch {
		case c.text.Failed():
			return nil
		case n == maxMembers:
			return mailroom.Errorf(mailroom.CodeTooLarge, "an object in the body has more than %d members", maxMembers)
		case !names.Add(name):
			return Invalid(c.location(depth), "duplicate field", nil)
		case !free && !isFieldName(name):
			return Invalid(c.location(depth), "unknown field", nil)
		}
		c.text.Colon()
		if err := c.value(depth+1, free || isFreeForm(name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *bodyCheck) array(depth int, free bool) error {
	c.text.Open('[')
	for n := 0; c.text.More(']'); n++ {
		c.path[depth] = level{index: n}
		if err := c.value(depth+1, free); err != nil {
			return err
		}
	}
	return nil
}

// location returns the path of the current member or element, such as body.parts[1].type. depth is the index of its
// object or array in c.path.
func (c *bodyCheck) location(depth int) string {
	var b strings.Builder
	b.WriteString("body")
	for _, l := range c.path[:depth+1] {
		if l.name == nil {
			b.WriteString("[" + strconv.Itoa(l.index) + "]")
			continue
		}
		b.WriteString("." + Truncate(string(l.name)))
	}
	return b.String()
}

// malformed returns the syntax error of the standard decoder, with its offset.
func malformed(raw []byte) error {
	var v json.RawMessage
	err := json.Unmarshal(raw, &v)
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case !ok:
		return Malformed("body", "is not JSON")
	case syntax.Offset == int64(len(raw)) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return Malformed("body", "is not JSON: unexpected end")
	}
	return Malformed("body", fmt.Sprintf("is not JSON: %s, at byte %d", syntax.Error(), syntax.Offset))
}

// isFieldName reports whether the API may have a field of this name.
func isFieldName(name []byte) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// isFreeForm reports whether the field of this name holds the caller's own JSON.
func isFreeForm(name []byte) bool {
	switch string(name) {
	case "options", "metadata", "data", "answer", "agents", "arguments", "body", "checkpoint", "state", "waits_on":
		return true
	}
	return false
}
