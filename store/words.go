package store

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxIndexed is how much of a text Words reads, in bytes.
	MaxIndexed = 64 << 10
	// MaxWords is how many words Words returns.
	MaxWords = 1000
	// MaxWord is the length of a word, in bytes. The rest of a longer one is cut off; see LongWords.
	MaxWord = 40
)

// Words returns the distinct words of a text, in lower case and in the order of the text: sequences of
// letters and digits, with their combining marks. Scripts that are written without spaces have no words
// to find, so each of their letters is a word.
func Words(text string) []string { return wordsOf(text, MaxWord, MaxWords) }

// LongWords returns, in full, the distinct words of a text that Words cuts off or that are as long as a cut word. Two
// texts with different long words may have the same Words, so a search compares the long words of the messages that it
// finds.
func LongWords(text string) []string {
	const short = MaxWord - utf8.UTFMax // of a cut word, the next letter did not fit
	return slices.DeleteFunc(wordsOf(text, MaxIndexed, MaxIndexed), func(word string) bool { return len(word) <= short })
}

// wordsOf returns at most most words from the start of a text, each cut to length bytes.
func wordsOf(text string, length, most int) []string {
	w := wordList{seen: map[string]bool{}, length: length, most: most}
	for _, c := range text[:min(len(text), MaxIndexed)] {
		switch {
		case unspaced(c):
			w.end()
			w.add(c)
			w.end()
		case unicode.IsLetter(c), unicode.IsDigit(c), len(w.word) > 0 && combines(c):
			w.add(unicode.ToLower(c))
		default: // also an invalid byte
			w.end()
		}
	}
	w.end()
	return w.words
}

// unspaced reports whether c is a letter of a script that is written without spaces between words.
func unspaced(c rune) bool {
	return c > unicode.MaxLatin1 && unicode.IsLetter(c) &&
		unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
			unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// combines reports whether c is a mark that belongs to the letter before it.
func combines(c rune) bool {
	return unicode.In(c, unicode.Mn, unicode.Mc) && !unicode.Is(unicode.Variation_Selector, c)
}

// wordList collects words rune by rune.
type wordList struct {
	words []string
	seen  map[string]bool
	word  []byte // the current one
	cut   bool   // the current one has reached the length

	length, most int
}

func (w *wordList) add(c rune) {
	if w.cut = w.cut || len(w.word)+utf8.RuneLen(c) > w.length; !w.cut {
		w.word = utf8.AppendRune(w.word, c)
	}
}

// end ends the current word, if there is one.
func (w *wordList) end() {
	if len(w.word) > 0 && len(w.words) < w.most && !w.seen[string(w.word)] {
		word := string(w.word)
		w.words, w.seen[word] = append(w.words, word), true
	}
	w.word, w.cut = w.word[:0], false
}

// OwnerWord returns the word by which the messages of an owner's threads are found. It begins with a
// private-use character, which Words never returns.
func OwnerWord(owner string) string { return hiddenWord("o", owner) }

// ThreadWord returns the word by which the messages of a thread are found. See OwnerWord.
func ThreadWord(thread string) string { return hiddenWord("t", thread) }

func hiddenWord(kind, value string) string {
	sum := sha256.Sum256([]byte(value))
	return "\ue000" + kind + hex.EncodeToString(sum[:8])
}

// windowWord returns the word of the window of a level that a row is in. See OwnerWord.
func windowWord(level int, row int64) string {
	return "\ue000" + strconv.Itoa(level) + strconv.FormatInt(row>>(windowBits+levelBits*level), 36)
}
