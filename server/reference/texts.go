package reference

import (
	_ "embed" // operations.md
	"fmt"
	"strconv"
	"strings"

	"mailroom"
)

// operations has a section for each operation: what it does, and the refusals that do not follow from its kind. It is
// text and not Go, because it is written and reviewed as text.
//
// archtest: embedded, never written.
//
//go:embed operations.md
var operations string

// text is the section of an operation.
type text struct {
	place    int // position in the file, which is in the order for readers
	does     string
	refusals []refusal
}

// refusal is a status and a code that an operation may answer with.
type refusal struct {
	status int
	code   mailroom.Code
	when   string // the condition, as the end of a sentence
}

// never in place of a code says that an operation does not answer with a status that is usual for its kind.
const never mailroom.Code = "none"

// parseTexts reads the sections, by operation id.
func parseTexts(all string) (map[string]text, error) {
	sections := map[string]text{}
	for section := range strings.SplitSeq("\n"+all, "\n# ") {
		if strings.TrimSpace(section) == "" {
			continue
		}
		id, rest, _ := strings.Cut(section, "\n")
		t := text{place: len(sections)}
		var does []string
		for line := range strings.Lines(rest) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] < '0' || line[0] > '9' {
				does = append(does, line)
				continue
			}
			r, err := parseRefusal(line)
			if err != nil {
				return nil, fmt.Errorf("operation %s: %w", id, err)
			}
			t.refusals = append(t.refusals, r)
		}
		t.does = strings.TrimSpace(strings.Join(does, " "))
		if _, twice := sections[id]; twice {
			return nil, fmt.Errorf("operation %s has two sections", id)
		}
		sections[id] = t
	}
	return sections, nil
}

// parseRefusal reads a line such as "409 busy: the thread has an open run".
func parseRefusal(line string) (refusal, error) {
	words, when, ok := strings.Cut(line, ": ")
	status, code, both := strings.Cut(words, " ")
	number, err := strconv.Atoi(status)
	if !ok || !both || err != nil {
		return refusal{}, fmt.Errorf("%q is not STATUS CODE: CONDITION", line)
	}
	return refusal{number, mailroom.Code(code), when}, nil
}
