package tracker

import (
	"errors"
	"time"

	"mailroom/internal/jsontext"
)

// errSyntax reports text that is not JSON. It has no position, because the whole line is rejected.
var errSyntax = errors.New("not JSON")

// errObject reports JSON that is not an object.
var errObject = errors.New("not a JSON object")

// errNoID reports an object without an id.
var errNoID = errors.New("no id")

// maxDepth bounds the nesting of values.
const maxDepth = 1000

// field is one member of an object: its decoded name, and key and value as written.
type field struct{ name, key, raw string }

// fields returns the members of an object, including duplicates. Values are checked for syntax
// only.
func fields(text string) ([]field, error) { return appendFields(make([]field, 0, 24), text) }

// appendFields appends the members of an object to found.
func appendFields(found []field, text string) ([]field, error) {
	s := jsontext.Scan(text)
	s.Open('{')
	for s.More('}') {
		begin := s.Offset()
		name := s.ReadString()
		key := s.Since(begin)
		s.Colon()
		found = append(found, field{name, key, s.Value(maxDepth)})
	}
	if err := checkObject(&s, text); err != nil {
		return nil, err
	}
	return found, nil
}

// checkObject returns an error if text, which was scanned, is not exactly one JSON object.
func checkObject(s *jsontext.Scanner[string], text string) error {
	if s.AtEnd() {
		return nil
	}
	all := jsontext.Scan(text)
	if all.Peek() != '{' {
		if all.Value(maxDepth); all.AtEnd() {
			return errObject
		}
	}
	return errSyntax
}

// scanner reads a line. A tracker reads thousands of issues to change one, so a line is scanned
// once, and unknown members only for their syntax.
type scanner struct {
	json jsontext.Scanner[string]

	// The last two times: most times of an issue equal one of them.
	times [2]timeText
	older int // index of the older one
}

// timeText is a parsed time with its text.
type timeText struct {
	text string
	at   time.Time
}

func newScanner(text string) *scanner { return &scanner{json: jsontext.Scan(text)} }

// reset starts reading another text. The cached times stay.
func (s *scanner) reset(text string) { s.json = jsontext.Scan(text) }

// value reads any value and returns its text.
func (s *scanner) value() string { return s.json.Value(maxDepth) }
