package jsontext

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote decodes a string that was scanned, as encoding/json does: an invalid byte and an unpaired
// surrogate become U+FFFD.
func Unquote(quoted string) string {
	if !utf8.ValidString(quoted) {
		quoted = toValidUTF8(quoted)
	}
	return unescape(quoted[1 : len(quoted)-1])
}

// toValidUTF8 replaces each invalid byte by U+FFFD.
func toValidUTF8(text string) string {
	var out strings.Builder
	for _, r := range text {
		out.WriteRune(r)
	}
	return out.String()
}

// unescape decodes escape sequences.
func unescape(inside string) string {
	var out strings.Builder
	out.Grow(len(inside))
	for {
		at := strings.IndexByte(inside, '\\')
		if at < 0 {
			out.WriteString(inside)
			return out.String()
		}
		out.WriteString(inside[:at])
		inside = inside[at:]
		c, size := inside[1], 2
		switch c {
		case 'b':
			out.WriteByte('\b')
		case 'f':
			out.WriteByte('\f')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 't':
			out.WriteByte('\t')
		case 'u':
			r := escapedRune(inside)
			size = 6
			if utf16.IsSurrogate(r) {
				if pair := utf16.DecodeRune(r, escapedRune(inside[6:])); pair != utf8.RuneError {
					r, size = pair, 12
				}
			}
			out.WriteRune(r) // an unpaired surrogate becomes U+FFFD
		default: // a quote, a slash or a backslash
			out.WriteByte(c)
		}
		inside = inside[size:]
	}
}

// HasLoneSurrogate reports whether text has the escape of a surrogate without its other half. Such an escape is what
// [Unquote] and encoding/json replace silently. In JSON, backslashes occur only in strings.
func HasLoneSurrogate(text []byte) bool {
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); {
		width := 2
		if r := escapedRune(text[i:]); utf16.IsSurrogate(r) {
			width = 12
			if i+6 > len(text) || utf16.DecodeRune(r, escapedRune(text[i+6:])) == utf8.RuneError {
				return true
			}
		}
		next := bytes.IndexByte(text[min(i+width, len(text)):], '\\')
		if next < 0 {
			return false
		}
		i += width + next
	}
	return false
}

// escapedRune returns the value of the escape \uXXXX at the start of text, or -1.
func escapedRune[T Text](text T) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
