package tracker

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeText is what a JSON text stands for, which has been scanned.
func decodeText(raw string) string {
	if !utf8.ValidString(raw) {
		raw = toValidUTF8(raw)
	}
	return unescape(raw[1 : len(raw)-1])
}

// toValidUTF8 replaces each byte that is not UTF-8 by U+FFFD, as encoding/json does.
func toValidUTF8(text string) string {
	var out strings.Builder
	for _, r := range text {
		out.WriteRune(r)
	}
	return out.String()
}

// unescape replaces escapes by what they stand for. Half of a surrogate pair is
// U+FFFD, as encoding/json has it.
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
			out.WriteRune(r) // a half becomes U+FFFD here
		default: // a quote, a slash or a backslash
			out.WriteByte(c)
		}
	}
}

// hex4 reads four digits, which have been scanned.
func hex4(text string) rune {
	n, err := strconv.ParseUint(text[:4], 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

// encodeText is encode for what mostly needs no escapes.
func encodeText(s string) string {
	if n, ascii := plainPrefix(s); n == len(s) && ascii {
		return `"` + s + `"`
	}
	return encode(s)
}

// encode writes a value as git's eyes want it: without HTML escapes.
func encode(v any) string {
	b, err := marshal(v)
	if err != nil {
		panic(err) // texts, numbers and times between the years 1 and 9999 always encode
	}
	return b
}
