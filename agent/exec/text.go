package exec

import (
	"strings"
	"unicode/utf8"
)

// textDecoder converts a stream of bytes to valid UTF-8 without NUL, as messages require. A
// character that is split between two chunks is completed by the second. Each invalid byte becomes
// U+FFFD.
type textDecoder struct{ cut []byte }

// add returns the text of a chunk.
func (c *textDecoder) add(piece []byte) string {
	b := piece
	if len(c.cut) > 0 {
		b = append(c.cut, piece...)
	}
	var text strings.Builder
	text.Grow(len(b))
	for len(b) > 0 && utf8.FullRune(b) {
		r, size := utf8.DecodeRune(b)
		if r != 0 {
			text.WriteRune(r) // RuneError is U+FFFD
		}
		b = b[size:]
	}
	c.cut = append([]byte(nil), b...)
	return text.String()
}

// flush returns the text of an incomplete character at the end of the stream.
func (c *textDecoder) flush() string {
	n := len(c.cut)
	c.cut = nil
	return strings.Repeat(string(utf8.RuneError), n)
}
