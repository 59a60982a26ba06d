package jsontext

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AppendCanonical appends the JSON text raw in the canonical form of RFC 8785: without spaces, members sorted by their
// names as UTF-16, strings with the fewest escapes, numbers as JavaScript writes them. So equal values have equal
// texts, whatever language wrote them. Unlike there, numbers keep all of their digits: an integer above 2^53 is not
// rounded. Objects with a name twice, and values that nest deeper than depth, are refused.
func AppendCanonical(b, raw []byte, depth int) ([]byte, error) {
	c := canonizer{text: Scan(raw), depth: depth}
	b = c.value(b, 0)
	if c.err == nil && !c.text.AtEnd() {
		c.err = errors.New("is not valid JSON")
	}
	return b, c.err
}

type canonizer struct {
	text  Scanner[[]byte]
	depth int
	err   error // first error; the text behind it is not read
}

func (c *canonizer) fail(err error) {
	if c.err == nil && !c.text.Failed() {
		c.err = err
	}
	c.text.fail()
}

func (c *canonizer) value(b []byte, depth int) []byte {
	first := c.text.Peek()
	switch first {
	case '{', '[':
		if depth == c.depth {
			c.fail(fmt.Errorf("is nested deeper than %d", c.depth))
			return b
		}
		depth++
		if first == '{' {
			return c.object(b, depth)
		}
		b = append(b, '[')
		c.text.Open('[')
		for c.text.More(']') {
			b = append(c.value(b, depth), ',')
		}
		return closeList(b, ']')
	case '"':
		return appendCanonicalString(b, string(c.text.ReadString()))
	}
	begin := c.text.Offset()
	c.text.SkipScalar()
	token := c.text.Since(min(begin, c.text.Offset()))
	if c.text.Failed() || first == 't' || first == 'f' || first == 'n' {
		return append(b, token...)
	}
	b, err := appendCanonicalNumber(b, string(token))
	if err != nil {
		c.fail(err)
	}
	return b
}

// closeList replaces the comma after the last element by the closing bracket.
func closeList(b []byte, bracket byte) []byte {
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, bracket)
}

// member is the text of a member with a comma after it, by its place in a buffer.
type member struct {
	name       string
	begin, end int
}

func (c *canonizer) object(b []byte, depth int) []byte {
	b = append(b, '{')
	start := len(b)
	var members []member
	c.text.Open('{')
	for c.text.More('}') {
		m := member{name: string(c.text.Name()), begin: len(b)}
		b = append(appendCanonicalString(b, m.name), ':')
		b = append(c.value(b, depth), ',')
		m.end = len(b)
		members = append(members, m)
	}
	byName := func(a, b member) int { return compareUTF16(a.name, b.name) }
	if c.text.Failed() || slices.IsSortedFunc(members, byName) && !c.hasTwice(members) {
		return closeList(b, '}')
	}
	slices.SortFunc(members, byName)
	if c.hasTwice(members) {
		return b
	}
	unsorted := slices.Clone(b[start:])
	b = b[:start]
	for _, m := range members {
		b = append(b, unsorted[m.begin-start:m.end-start]...)
	}
	return closeList(b, '}')
}

// hasTwice refuses sorted members with the same name.
func (c *canonizer) hasTwice(sorted []member) bool {
	for i := 1; i < len(sorted); i++ {
		if sorted[i-1].name == sorted[i].name {
			c.fail(fmt.Errorf("has the field %q twice", sorted[i].name))
			return true
		}
	}
	return false
}

// compareUTF16 compares texts by their UTF-16: characters above U+FFFF, whose units are surrogates, come before
// U+E000.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		switch {
		case x == y:
			a, b = a[n:], b[m:]
		case (x > 0xffff) == (y > 0xffff):
			return cmp.Compare(x, y)
		default:
			return cmp.Compare(firstUnit(x), firstUnit(y))
		}
	}
	return cmp.Compare(len(a), len(b))
}

// firstUnit returns r, or a surrogate for a character that UTF-16 writes as two.
func firstUnit(r rune) rune {
	if r > 0xffff {
		return 0xd800
	}
	return r
}

func appendCanonicalString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\':
			b = append(b, '\\', c)
		case c >= ' ':
			b = append(b, c)
		case strings.IndexByte("\b\f\n\r\t", c) >= 0:
			b = append(b, '\\', "bfnrt"[strings.IndexByte("\b\f\n\r\t", c)])
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return append(b, '"')
}

func abs(n int) int { return max(n, -n) }

const (
	maxExponent = 1 << 30 // limit of a number's exponent, whatever the spelling
	maxPlain    = 21      // digits before the point of a number without an exponent; a rule of JavaScript
	maxZeros    = 6       // zeros after the point of one, with the first
)

// appendCanonicalNumber appends a number of a JSON text. Its value is 0.DIGITS times ten to the power of point.
func appendCanonicalNumber(b []byte, text string) ([]byte, error) {
	text, negative := strings.CutPrefix(text, "-")
	mantissa, power := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, power = text[:i], text[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	point := len(digits) - len(fraction)
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return append(b, '0'), nil
	}
	if power != "" {
		n, err := strconv.ParseInt(power, 10, 64)
		if err != nil || n > 2*maxExponent || n < -2*maxExponent || abs(int(n)+point) > maxExponent {
			return b, errors.New("has a number with too large an exponent")
		}
		point += int(n)
	}
	if negative {
		b = append(b, '-')
	}
	switch {
	case point > maxPlain, point <= -maxZeros:
		b = append(b, digits[0])
		if len(digits) > 1 {
			b = append(append(b, '.'), digits[1:]...)
		}
		b = append(b, 'e')
		if point > 0 {
			b = append(b, '+')
		}
		return strconv.AppendInt(b, int64(point-1), 10), nil
	case point >= len(digits):
		return append(append(b, digits...), strings.Repeat("0", point-len(digits))...), nil
	case point > 0:
		return append(append(append(b, digits[:point]...), '.'), digits[point:]...), nil
	}
	return append(append(append(b, "0."...), strings.Repeat("0", -point)...), digits...), nil
}
