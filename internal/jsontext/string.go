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
		c := inside[at+1]
		inside = inside[at+2:]
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
			r := hex4(inside)
			inside = inside[4:]
			if utf16.IsSurrogate(r) && strings.HasPrefix(inside, `\u`) {
				if pair := utf16.DecodeRune(r, hex4(inside[2:])); pair != utf8.RuneError {
					r, inside = pair, inside[6:]
				}
			}
			out.WriteRune(r) // an unpaired surrogate becomes U+FFFD
		default: // a quote, a slash or a backslash
			out.WriteByte(c)
		}
	}
}

// hex4 decodes four hexadecimal digits that were scanned.
func hex4(text string) rune {
	n, err := strconv.ParseUint(text[:4], 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

// HasLoneSurrogate finds the escape of a surrogate without its other half, which [Unquote] and
// encoding/json replace silently. In JSON, backslashes occur only in strings.
func HasLoneSurrogate(text []byte) bool {
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); {
		width := 2
		if r := decodeEscape(text[i:]); utf16.IsSurrogate(r) {
			width = 12
			if i+6 > len(text) || utf16.DecodeRune(r, decodeEscape(text[i+6:])) == utf8.RuneError {
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

// decodeEscape returns the value of the escape \uXXXX at the start of b, or -1.
func decodeEscape(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
