package thread

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxErrorPattern bounds a pattern, in bytes. The rest of a message, such as a stack, is ignored.
const MaxErrorPattern = 300

// maxScanned bounds how many bytes of a message are read. It exceeds MaxErrorPattern because the pattern of a long
// text may be much shorter than the text.
const maxScanned = 4 << 10

// ErrorGroup returns the group of an error message: 16 hexadecimal digits of the SHA-256 of its ErrorPattern.
// Groups are stored, so a change of the rules splits the groups of errors over time.
func ErrorGroup(message string) string {
	sum := sha256.Sum256([]byte(ErrorPattern(message)))
	return hex.EncodeToString(sum[:8])
}

// ErrorPattern returns the message without what differs between errors of one cause: quoted text becomes
// *, an address <url>, a path <path>, a time <time>, a duration <duration>, a number of bytes <size>, and an id or
// another number #. Of an object, such as the body of a response, it keeps the keys and what says the cause. It is
// valid UTF-8 of at most MaxErrorPattern bytes, without ASCII digits and control characters.
func ErrorPattern(message string) string { return pattern(message, false) }

// DescribeError returns the form of an error message that may be logged: without text of a conversation and without
// secrets. It is the ErrorPattern, but keeps numbers of up to four digits, such as a status.
func DescribeError(message string) string { return pattern(message, true) }

func pattern(message string, numbers bool) string {
	if len(message) > maxScanned {
		message = message[:maxScanned]
	}
	s := scanner{rest: strings.ToValidUTF8(message, ""), before: ' ', numbers: numbers}
	found := s.all()
	for len(found) > MaxErrorPattern {
		_, size := utf8.DecodeLastRuneInString(found)
		found = found[:len(found)-size]
	}
	return strings.TrimRight(found, " ")
}

// scanner reads a message from its begin to its end.
type scanner struct {
	rest   string
	before rune // last character that was read; a space at the begin
	// numbers keeps numbers of up to four digits in the pattern.
	numbers bool
	within  bool // the message is a text of an object
	out     strings.Builder
}

// all reads the message until the message ends or the pattern is longer than MaxErrorPattern, and returns the pattern.
func (s *scanner) all() string {
	for s.rest != "" && s.out.Len() < MaxErrorPattern+utf8.UTFMax {
		s.next()
	}
	return s.out.String()
}

// next applies the first rule that fits the rest of the message, and moves at least one character of it to the
// pattern.
func (s *scanner) next() {
	c, size := utf8.DecodeRuneInString(s.rest)
	switch {
	case isSpace(c):
		s.space(size)
	case !s.within && s.member():
	case s.quoted():
	case startsWord(s.before) && s.place():
	case !isWord(s.before) && (s.token() || s.id()):
	case isDigit(c):
		n := numberLength(s.rest)
		if text := s.rest[:n]; s.numbers && n <= 4 {
			s.put(text, n)
		} else {
			s.put("#", n)
		}
	default:
		s.put(s.rest[:size], size)
	}
}

// put appends text to the pattern for the next n bytes of the message.
func (s *scanner) put(text string, n int) {
	s.before, _ = utf8.DecodeLastRuneInString(s.rest[:n])
	s.out.WriteString(text)
	s.rest = s.rest[n:]
}

func (s *scanner) space(size int) {
	text := " "
	if out := s.out.String(); out == "" || out[len(out)-1] == ' ' {
		text = ""
	}
	s.put(text, size)
}

// quoted reads text in quotation marks on one line. An apostrophe is not a quotation mark if a letter or a digit
// stands before the opening one or behind the closing one.
func (s *scanner) quoted() bool {
	open, size := utf8.DecodeRuneInString(s.rest)
	mark := open
	switch open {
	case '"', '`':
	case '“':
		mark = '”'
	case '\'':
		if isWord(s.before) {
			return false
		}
	default:
		return false
	}
	for at, c := range s.rest[size:] {
		end := size + at + utf8.RuneLen(c)
		behind, _ := utf8.DecodeRuneInString(s.rest[end:])
		switch {
		case c == '\n' || c == '\r':
			return false
		case c == mark && (mark != '\'' || s.rest[end:] == "" || !isWord(behind)):
			s.put(string(open)+"*"+string(mark), end)
			return true
		}
	}
	return false
}

// place reads an address or a path, without the punctuation behind it.
func (s *scanner) place() bool {
	end := strings.IndexFunc(s.rest, func(c rune) bool { return isSpace(c) || strings.ContainsRune("\"'`()[]{}<>,;", c) })
	if end < 0 {
		end = len(s.rest)
	}
	word := strings.TrimRight(s.rest[:end], ".:!?")
	switch {
	case strings.Contains(word, "://"):
		s.put("<url>", len(word))
	case isPath(word):
		s.put("<path>", len(word))
	default:
		return false
	}
	return true
}

// isPath reports whether a word is an absolute path, or one from the current or the home folder.
func isPath(word string) bool {
	for _, root := range []string{"/", "./", "../", "~/"} {
		if name, ok := strings.CutPrefix(word, root); ok {
			return strings.ContainsFunc(name, unicode.IsLetter)
		}
	}
	return len(word) > 3 && isLetter(word[0]) && word[1:3] == `:\`
}

// id reads a word of letters and digits that is an id: a UUID, 0x and hexadecimal digits, at least 8
// hexadecimal digits, at least 12 letters and digits with 3 digits among them, or at least 6 with a digit
// behind a prefix such as req_ or chatcmpl-. A number with a unit is no id.
func (s *scanner) id() bool {
	n := uuidLength(s.rest)
	if n == 0 {
		n = wordLength(s.rest)
		word := s.rest[:n]
		digits, hexDigits := 0, 0
		for _, c := range []byte(word) {
			if isDigit(rune(c)) {
				digits++
			}
			if isHex(c) {
				hexDigits++
			}
		}
		unit := strings.TrimLeft(word, "0123456789")
		switch {
		case digits == 0 && !(n >= 10 && caseChanges(word) > 2 && s.prefixed() && prefixOfID(s.prefix())):
			return false
		case n >= 6 && s.prefixed():
		case len(unit) <= 3 && len(unit) < n:
			return false
		case strings.HasPrefix(word, "0x") && hexDigits == n-1 && n > 2:
		case n >= 8 && hexDigits == n:
		case n >= 12 && digits >= 3:
		default:
			return false
		}
	}
	if behind, _ := utf8.DecodeRuneInString(s.rest[n:]); s.rest[n:] != "" && isWord(behind) {
		return false
	}
	s.put("#", n)
	return true
}

// prefixed reports whether a letter and then "_" or "-" precede the rest of the message, as in req_ and chatcmpl-.
func (s *scanner) prefixed() bool {
	out := s.out.String()
	n := len(out)
	return n >= 2 && (out[n-1] == '_' || out[n-1] == '-') && isLetter(out[n-2])
}

// prefix returns the word before the "_" or "-" that precedes the rest of the message. Call it only if s.prefixed().
func (s *scanner) prefix() string {
	out := s.out.String()
	out = out[:len(out)-1]
	return out[strings.LastIndexFunc(out, func(c rune) bool { return !isWord(c) })+1:]
}

// uuidLength returns the length of a UUID at the begin of text, or 0.
func uuidLength(text string) int {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(text) < len(form) {
		return 0
	}
	for i := range len(form) {
		if c := text[i]; form[i] == 'x' && !isHex(c) || form[i] == '-' && c != '-' {
			return 0
		}
	}
	return len(form)
}

// wordLength returns the number of ASCII letters and digits at the begin of text.
func wordLength(text string) int {
	n := 0
	for n < len(text) && (isLetter(text[n]) || isDigit(rune(text[n]))) {
		n++
	}
	return n
}

// numberLength returns the length of the digits at the begin of text, with single signs between them
// as in 1,234.5 and 10:45.
func numberLength(text string) int {
	n := 0
	for n < len(text) {
		switch {
		case isDigit(rune(text[n])):
		case strings.IndexByte(".,:", text[n]) >= 0 && n+1 < len(text) && isDigit(rune(text[n+1])):
		default:
			return n
		}
		n++
	}
	return n
}

// startsWord reports whether an address or a path may begin behind c.
func startsWord(c rune) bool { return isSpace(c) || strings.ContainsRune("\"'`()[]{}<>,;=:", c) }

func isSpace(c rune) bool  { return unicode.IsSpace(c) || unicode.IsControl(c) }
func isWord(c rune) bool   { return unicode.IsLetter(c) || unicode.IsDigit(c) }
func isDigit(c rune) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isHex(c byte) bool    { return isDigit(rune(c)) || 'a' <= c|0x20 && c|0x20 <= 'f' }
