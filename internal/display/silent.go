package display

import (
	"strings"
	"unicode"
)

// IsSilent reports whether a text says nothing but a word, with which an agent says that it has nothing to say. Models
// write it with other letters than asked, in bold, in quotes or with a full stop, so case is ignored, and so is
// what stands around it and is no letter or digit. A text with anything else is not silent: its reader would miss it.
func IsSilent(text, word string) bool {
	w := bare(word)
	return w != "" && len(text) <= maxSilent && strings.EqualFold(bare(text), w)
}

// maxSilent bounds the size of a text that is compared.
const maxSilent = 1000

// bare returns a text without what is no letter or digit at its ends.
func bare(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
