package jsontext

import "math/bits"

// Strings are examined eight bytes at a time, because most of a text is strings. The functions on
// words mark a byte by its highest bit. Bytes after the first marked one may be marked wrongly.

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

func load[T Text](t T) uint64 {
	_ = t[7]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
		uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}

// equal marks the bytes of w that equal c.
func equal(w uint64, c byte) uint64 {
	w ^= ones * uint64(c)
	return (w - ones) &^ w & highs
}

// controls marks the bytes of w that are control characters.
func controls(w uint64) uint64 { return (w - ones*' ') &^ w & highs }

// plainPrefix returns the length of the longest prefix without quotes, backslashes and control characters, and
// whether that prefix is ASCII.
func plainPrefix[T Text](text T) (n int, ascii bool) {
	var all uint64
	for ; n+8 <= len(text); n += 8 {
		w := load(text[n : n+8])
		if found := equal(w, '"') | equal(w, '\\') | controls(w); found != 0 {
			end := bits.TrailingZeros64(found) &^ 7
			all |= w & (1<<end - 1)
			return n + end/8, all&highs == 0
		}
		all |= w
	}
	for ; n < len(text); n++ {
		c := text[n]
		if c == '"' || c == '\\' || c < ' ' {
			break
		}
		all |= uint64(c)
	}
	return n, all&highs == 0
}

// verbatimPrefix returns the length of the longest prefix that is ASCII and needs no escape.
func verbatimPrefix(text string, html bool) (n int) {
	for ; n+8 <= len(text); n += 8 {
		w := load(text[n : n+8])
		found := equal(w, '"') | equal(w, '\\') | controls(w) | w&highs
		if html {
			found |= equal(w, '&') | equal(w|('<'^'>')*ones, '<'|'>')
		}
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for ; n < len(text); n++ {
		c := text[n]
		if c == '"' || c == '\\' || c < ' ' || c >= 0x80 || html && (c == '&' || c == '<' || c == '>') {
			break
		}
	}
	return n
}
