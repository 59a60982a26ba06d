package request

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom"
	"mailroom/internal/display"
)

// FilterKey is a key of a list. If Values is set, a value without a star must be one of
// them. A Name that ends in ".*" matches every key with that prefix.
type FilterKey struct {
	Name   string
	Values []string
	Kind   FilterKind
}

// FilterKind says how the values of a key are compared.
type FilterKind int

const (
	kindName FilterKind = iota // the whole value must match
	KindText                   // a value without a star matches anywhere in the text
	KindTime                   // see [Filter]
)

func (k FilterKey) named(name string) bool {
	if all, ok := strings.CutSuffix(k.Name, "*"); ok {
		return len(name) > len(all) && strings.HasPrefix(name, all)
	}
	return k.Name == name
}

// FilterRow returns the values of one row. Each function is called only for keys of its
// kind that the filter contains.
type FilterRow struct {
	Text func(key string) string    // for kindName and KindText
	Time func(key string) time.Time // for KindTime; zero: the row has no such time
}

// Filter is a parsed q, the query language of lists. The zero Filter matches everything.
//
// A q has terms:
//
//	status:failed agent:codex -thread:"nightly build" key:order-*
//
// Terms are separated by spaces and must all match. A minus before a term negates
// it. A star matches any number of characters, including none. Quotes enclose a value
// with spaces; inside them a backslash escapes the next character, such as a quote or
// a star. Matching is case-sensitive. Commas outside of quotes separate alternatives:
// one must match. A time has a range instead:
//
//	status:queued,running agent:codex,claude
//
// A text key matches a value anywhere in the text:
//
//	error:"rate limit"
//
// A time key takes a day or an RFC 3339 time, a comparison with one, or an inclusive
// range of two. A day is the whole day in UTC:
//
//	created:2026-11-01 created:>2026-11-01 finished:<=2026-11-01T08:30:00Z
//	created:2026-11-01..2026-11-07 finished:"" finished:*
//
// So created:>2026-11-01 begins with the 2nd. The last two terms match rows without
// a time and rows with any time.
type Filter struct{ terms []term }

type term struct {
	key  string
	kind FilterKind
	not  bool
	any  []pattern // alternatives, at least one
	span span      // for KindTime
}

// pattern is the literal texts between stars; one piece: no star.
type pattern []string

// MaxFilter is the longest q that ParseFilter accepts, in bytes.
const MaxFilter = 4096

// ParseFilter parses q. Its error has code invalid and names the term.
func ParseFilter(q string, keys []FilterKey) (Filter, error) {
	if len(q) > MaxFilter {
		return Filter{}, refuse(q, fmt.Sprintf("is longer than %d bytes", MaxFilter))
	}
	if !utf8.ValidString(q) {
		return Filter{}, refuse(q, "is not valid UTF-8")
	}
	var f Filter
	rest := strings.TrimLeftFunc(q, unicode.IsSpace)
	for rest != "" {
		t, after, err := parseTerm(rest, keys)
		if err != nil {
			return Filter{}, err
		}
		f.terms = append(f.terms, t)
		rest = strings.TrimLeftFunc(after, unicode.IsSpace)
	}
	return f, nil
}

func parseTerm(s string, keys []FilterKey) (term, string, error) {
	whole := firstWord(s)
	var t term
	s, t.not = strings.CutPrefix(s, "-")
	end := strings.IndexFunc(s, func(c rune) bool { return c == ':' || c == '"' || unicode.IsSpace(c) })
	if end <= 0 || s[end] != ':' {
		return t, "", refuse(whole, "is not a term: write key:value with one of the keys "+names(keys))
	}
	t.key = s[:end]
	i := slices.IndexFunc(keys, func(k FilterKey) bool { return k.named(t.key) })
	if i < 0 {
		return t, "", refuse(t.key, fmt.Sprintf("has an unknown key %q%s: use one of %s", t.key,
			didYouMean(t.key, keyNames(keys)), names(keys)))
	}
	t.kind = keys[i].Kind
	rest := s[end:]
	for more := true; more; { // behind the colon, and behind each comma
		value, after, err := parseValue(rest[1:], t.kind != KindTime)
		if err != "" {
			return t, "", refuse(whole, err)
		}
		t.any, rest, more = append(t.any, value), after, strings.HasPrefix(after, ",")
	}
	if t.kind == KindTime {
		var problem string
		if t.span, problem = parseSpan(t.any[0]); problem != "" {
			return t, "", refuse(whole, problem)
		}
	}
	for _, p := range t.any {
		if v, exact := p.exact(); exact && keys[i].Values != nil && !slices.Contains(keys[i].Values, v) {
			return t, "", refuse(v, fmt.Sprintf("has no such %s %q%s: use one of %s, or several with commas between them",
				t.key, v, didYouMean(v, keys[i].Values), strings.Join(keys[i].Values, ", ")))
		}
	}
	return t, rest, nil
}

// parseValue reads up to the next space outside quotes, or with several to the next comma.
func parseValue(s string, several bool) (pieces pattern, rest string, problem string) {
	var piece strings.Builder
	quoted, any := false, false
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		if !quoted && (several && c == ',' || unicode.IsSpace(c)) {
			break
		}
		s = s[n:]
		switch {
		case c == '"':
			quoted, any = !quoted, true
			continue
		case c == '*':
			pieces, any = append(pieces, piece.String()), true
			piece.Reset()
			continue
		case c == '\\' && quoted:
			if s == "" {
				return nil, "", `has no closing quote (")`
			}
			c, n = utf8.DecodeRuneInString(s)
			s = s[n:]
		}
		any = true
		piece.WriteRune(c)
	}
	switch {
	case quoted:
		return nil, "", `has no closing quote (")`
	case !any:
		return nil, "", `has no value: write "" to match an empty one, and quotes around a value with a comma`
	}
	return append(pieces, piece.String()), s, ""
}

// Match reports whether all terms match a row.
func (f Filter) Match(r FilterRow) bool {
	for _, t := range f.terms {
		good := false
		if t.kind == KindTime {
			good = t.span.contains(r.Time(t.key))
		} else {
			v := r.Text(t.key)
			good = slices.ContainsFunc(t.any, func(p pattern) bool { return p.match(v, t.kind) })
		}
		if good == t.not {
			return false
		}
	}
	return true
}

// Exact returns the value that a term without star and minus requires of key, so that
// a store can use an index.
func (f Filter) Exact(key string) (string, bool) {
	if all := f.OneOf(key); len(all) == 1 {
		return all[0], true
	}
	return "", false
}

// Prefix returns the longest text that a term without minus requires values of key to begin with, or "".
func (f Filter) Prefix(key string) (longest string) {
	for _, t := range f.terms {
		if t.key == key && !t.not && len(t.any) == 1 && len(t.any[0][0]) > len(longest) {
			longest = t.any[0][0]
		}
	}
	return longest
}

// OneOf returns the alternatives of a term without star and minus, nil if there is no such
// term: a row must have one of them. Of several such terms it is the one with the fewest values.
func (f Filter) OneOf(key string) (values []string) {
	for _, t := range f.terms {
		if all := t.exact(); t.key == key && !t.not && all != nil && (values == nil || len(all) < len(values)) {
			values = all
		}
	}
	return values
}

// Requires reports whether a term matches only rows with a value of key.
func (f Filter) Requires(key string) bool {
	return slices.ContainsFunc(f.terms, func(t term) bool {
		return t.key == key && !t.not && !slices.ContainsFunc(t.any, func(p pattern) bool { return p.match("", t.kind) })
	})
}

// Only reports whether every term requires one of some values of one of these keys, and
// no key has two terms.
func (f Filter) Only(keys ...string) bool {
	seen := map[string]bool{}
	for _, t := range f.terms {
		if t.exact() == nil || t.not || seen[t.key] || !slices.Contains(keys, t.key) {
			return false
		}
		seen[t.key] = true
	}
	return true
}

// Span returns the range that the terms of a time key without minus require of a row, so that a store
// can read less: from is inclusive, before exclusive, and zero is no bound.
func (f Filter) Span(key string) (from, before time.Time) {
	for _, t := range f.terms {
		if t.key != key || t.kind != KindTime || t.not {
			continue
		}
		if t.span.from.After(from) {
			from = t.span.from
		}
		if upto := t.span.upto; t.span.bounded && (before.IsZero() || upto.Before(before)) {
			before = upto
		}
	}
	return from, before
}

// Empty reports whether the filter matches everything.
func (f Filter) Empty() bool { return len(f.terms) == 0 }

// exact returns the alternatives of a term, in order and once each, nil if one of them has a star.
func (t term) exact() (values []string) {
	for _, p := range t.any {
		v, ok := p.exact()
		if !ok {
			return nil
		}
		if !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

func (p pattern) exact() (string, bool) {
	if len(p) != 1 {
		return "", false
	}
	return p[0], true
}

func (p pattern) match(v string, kind FilterKind) bool {
	first, last := p[0], p[len(p)-1]
	switch {
	case len(p) == 1 && kind == KindText && first != "":
		return strings.Contains(v, first)
	case len(p) == 1:
		return v == first
	}
	rest, ok := strings.CutPrefix(v, first)
	if !ok {
		return false
	}
	for _, piece := range p[1 : len(p)-1] {
		// the leftmost match leaves the most text for the others
		if _, rest, ok = strings.Cut(rest, piece); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, last)
}

// String returns the filter as a q that ParseFilter accepts.
func (f Filter) String() string {
	var b strings.Builder
	for i, t := range f.terms {
		if i > 0 {
			b.WriteByte(' ')
		}
		if t.not {
			b.WriteByte('-')
		}
		b.WriteString(t.key)
		for j, p := range t.any {
			b.WriteByte(":,"[min(j, 1)])
			p.write(&b)
		}
	}
	return b.String()
}

func (p pattern) write(b *strings.Builder) {
	for i, piece := range p {
		if i > 0 {
			b.WriteByte('*')
		}
		if piece != "" || len(p) == 1 {
			b.WriteString(quote(piece))
		}
	}
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `*`, `\*`).Replace(s) + `"`
}

func firstWord(s string) string {
	if i := strings.IndexFunc(s, unicode.IsSpace); i > 0 {
		return s[:i]
	}
	return s
}

func names(keys []FilterKey) string { return strings.Join(keyNames(keys), ", ") }

func keyNames(keys []FilterKey) (out []string) {
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return out
}

// didYouMean suggests the known word that is nearest to a word, or returns "".
func didYouMean(word string, known []string) string {
	if near := display.Suggest(word, known); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

func refuse(value, message string) error {
	return &mailroom.Error{
		Code:    mailroom.CodeInvalid,
		Message: "the filter " + message,
		Fields:  []mailroom.Field{{Location: "q", Message: message, Value: value}},
	}
}
