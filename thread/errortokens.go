package thread

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"mailroom/internal/lazyregexp"
)

// What differs between errors of one cause, beside numbers, hexadecimal digits and paths. Each expression is matched at
// the begin of a word only, so it begins with ^. The tests have the messages of providers that these are from.
var (
	// errorTime matches a date with or without a time: RFC 3339, RFC 1123 and ctime.
	errorTime = lazyregexp.New(`^(?:\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?` +
		`(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?)?|(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?` +
		`(?:\d{1,2}[ -]` + months + `[ -]\d{2,4}|` + months + ` +\d{1,2}(?:,? \d{4})?)` +
		`(?: \d\d:\d\d:\d\d(?:\.\d+)?(?: (?:[A-Z]{3,4}|[+-]\d{4}))?(?: \d{4})?)?)`)
	// errorDuration matches a duration: 1.5s, 6m0s, 350ms, 2 minutes and 20 seconds.
	errorDuration = lazyregexp.New(`^(?:(?:\d+(?:[.,]\d+)?(?:ns|us|µs|μs|msec|ms|secs|sec|s|mins|min|m|hrs|hr|h|d))+|` +
		`\d+(?:[.,]\d+)? ` + units + `(?:(?:,| and|, and)? \d+(?:[.,]\d+)? ` + units + `)*)`)
	// errorSize matches a number of bytes: 4096 bytes, 1.5 MB, 512MiB.
	errorSize = lazyregexp.New(`^\d+(?:[.,]\d+)* ?(?:[KMGTP]i?B|[kmg]b|kB|[Bb]ytes?|B)`)
	// errorLabel matches the words before an id.
	errorLabel = lazyregexp.New(`^(?i:(?:request|trace|correlation|operation|session|transaction|event|ray|host|run|job|` +
		`message|user|account|tenant|org|organization|project|incident|reference)[ _-]?id|arn)(?:["']?[:=#]\s*|\s+)["'(]?`)
	// errorValue matches an id behind such words.
	errorValue = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9:+/=_.-]{3,200}`)
	// errorToken matches a long word that may be an id of letters, digits, dashes and stars.
	errorToken = lazyregexp.New(`^[A-Za-z0-9_*.-]{20,200}`)
	// errorPod matches the last part of the name of a pod of Kubernetes, whose letters make no words.
	errorPod = lazyregexp.New(`^[bcdfghjklmnpqrstvwxz2456789]{5}`)
	// errorKey matches the key of a member of an object, in JSON or as Python prints it.
	errorKey = lazyregexp.New(`^["']@?[A-Za-z][A-Za-z_]{0,40}["']\s*:`)
)

// maxIPv6 is the length of the longest address of IPv6.
const maxIPv6 = 39

const (
	months = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*`
	units  = `(?:nanoseconds?|microseconds?|milliseconds?|seconds?|minutes?|hours?|days?|weeks?|secs?|mins?|hrs?|ms)`
)

// prefixOfID reports whether providers write ids behind a word and a sign, as in org-uOtiSEwv, so that letters are
// enough for an id.
func prefixOfID(word string) bool {
	switch word {
	case "asst", "batch", "call", "ch", "chatcmpl", "cmpl", "cus", "evt", "file", "gen", "key", "msg", "org", "pi", "proj",
		"req", "resp", "run", "sess", "sk", "sub", "thread", "toolu", "user":
		return true
	}
	return false
}

// token reads what a label, a unit or the form of the word says is no part of the cause.
func (s *scanner) token() bool {
	if n := labelled(s.rest); n > 0 {
		value := len(errorValue().FindString(s.rest[n:]))
		value -= len(s.rest[n:n+value]) - len(strings.TrimRight(s.rest[n:n+value], ".:"))
		s.put(s.rest[:n], n)
		s.put("#", value)
		return true
	}
	if !s.numbers && s.measure() {
		return true
	}
	if n := ipv6Length(s.rest); n > 0 && strings.ContainsAny(s.rest[:n], "0123456789") && s.ends(n) {
		s.put("#", n)
		return true
	}
	word := strings.TrimRight(errorToken().FindString(s.rest), ".")
	if before, _, ok := strings.Cut(word, "-"); isMasked(word) || isOpaque(word) && !(ok && prefixOfID(before)) {
		s.put("#", len(word))
		return true
	}
	if out := s.out.String(); strings.HasSuffix(out, "#-") && errorPod().MatchString(s.rest) && s.ends(5) {
		s.put("#", 5)
		return true
	}
	return false
}

// labelled returns the length of the words before an id at the begin of text, or 0. A word that is no id, as in
// "request id is missing", has neither a digit nor many changes between small and capital letters.
func labelled(text string) int {
	head := strings.ToLower(text[:min(len(text), 16)])
	if !isLetter(text[0]) || !strings.Contains(head, "id") && !strings.HasPrefix(head, "arn") {
		return 0
	}
	n := len(errorLabel().FindString(text))
	if n == 0 {
		return 0
	}
	if value := errorValue().FindString(text[n:]); strings.ContainsAny(value, "0123456789") || caseChanges(value) > 2 {
		return n
	}
	return 0
}

// ipv6Length returns the length of an address of IPv6 at the begin of text, in brackets also with its port, or 0.
func ipv6Length(text string) int {
	open := 0
	if text[0] == '[' {
		open = 1
	}
	n := open
	for n < len(text) && n < open+maxIPv6 && (isHex(text[n]) || text[n] == ':') {
		n++
	}
	if _, err := netip.ParseAddr(text[open:n]); err != nil || n-open < 3 || !strings.Contains(text[open:n], ":") {
		return 0
	}
	if open == 1 && n < len(text) && text[n] == ']' {
		if n++; n < len(text) && text[n] == ':' {
			n += 1 + numberLength(text[n+1:])
		}
	}
	return n
}

// measure reads a time, a duration or a number of bytes.
func (s *scanner) measure() bool {
	if c := s.rest[0]; !isDigit(rune(c)) && (c < 'A' || c > 'W') {
		return false
	}
	if n := len(errorTime().FindString(s.rest)); n > 0 && s.ends(n) {
		s.put("<time>", n)
		return true
	}
	if n := len(errorDuration().FindString(s.rest)); n > 0 && s.ends(n) {
		s.put("<duration>", n)
		return true
	}
	if n := len(errorSize().FindString(s.rest)); n > 0 && s.ends(n) {
		s.put("<size>", n)
		return true
	}
	return false
}

// ends reports whether a word ends n bytes on.
func (s *scanner) ends(n int) bool {
	behind, _ := utf8.DecodeRuneInString(s.rest[n:])
	return s.rest[n:] == "" || !isWord(behind)
}

// isMasked reports whether a word is a secret that a provider has masked, such as sk-proj-****1aBc.
func isMasked(word string) bool { return strings.Contains(word, "***") }

// isOpaque reports whether a word is a token of letters, digits, dashes and dots without a meaning, such as a JWT.
func isOpaque(word string) bool {
	if strings.HasPrefix(word, "eyJ") && len(word) > 20 {
		return true
	}
	digits := strings.IndexFunc(word, isDigit) >= 0
	return digits && len(word) >= 20 && caseChanges(word) >= 6 && !strings.Contains(word, ".")
}

// caseChanges counts the places of a word where a small letter is followed by a capital one.
func caseChanges(word string) (n int) {
	for i := 1; i < len(word); i++ {
		if 'a' <= word[i-1] && word[i-1] <= 'z' && 'A' <= word[i] && word[i] <= 'Z' {
			n++
		}
	}
	return n
}

// member reads the key of a member of an object. It keeps the key, and of a text behind it what says the cause.
func (s *scanner) member() bool {
	before := strings.TrimRight(s.out.String(), " ")
	if before == "" || !strings.ContainsRune("{,", rune(before[len(before)-1])) {
		return false
	}
	n := len(errorKey().FindString(s.rest))
	if n == 0 {
		return false
	}
	mark, end := s.rest[0], strings.IndexByte(s.rest[1:], s.rest[0])
	key := s.rest[1 : 1+max(end, 0)]
	s.put(string(mark)+key+string(mark)+":", n)
	s.cause(key)
	return true
}

// cause reads the text behind a key that says why the request failed. A log keeps only those that are words of the
// protocol.
func (s *scanner) cause(key string) {
	switch key {
	case "type", "code", "status", "reason":
	case "message", "error", "detail", "title":
		if s.numbers {
			return
		}
	default:
		return
	}
	space := len(s.rest) - len(strings.TrimLeft(s.rest, " "))
	if rest := s.rest[space:]; rest != "" && strings.IndexByte(`"'`, rest[0]) >= 0 {
		if n := textLength(rest); n > 0 {
			inner := scanner{rest: rest[1 : n-1], before: ' ', numbers: s.numbers, within: true}
			s.put(rest[:1]+inner.all()+rest[:1], space+n)
		}
	}
}

// textLength returns the length of a text in quotation marks at the begin of a JSON or Python value, or 0 if the text
// has no end.
func textLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return 0
}
