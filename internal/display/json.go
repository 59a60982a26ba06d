package display

import "strings"

// JSON returns a JSON text of the same value in which <, > and & are themselves. Encoders escape them for HTML, and a
// person would have to decide about "ls \u003elist".
func JSON(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			if len(text)-i >= 6 && text[i+1] == 'u' {
				if c := unescaped(text[i+2 : i+6]); c != 0 {
					b.WriteByte(c)
					i += 5
					continue
				}
			}
			b.WriteByte(text[i]) // the character after it may be another backslash
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// unescaped returns the character with four hexadecimal digits if it is one that JSON shows as itself, else 0.
func unescaped(digits string) byte {
	switch strings.ToLower(digits) {
	case "003c":
		return '<'
	case "003e":
		return '>'
	case "0026":
		return '&'
	}
	return 0
}
