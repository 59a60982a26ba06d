package bd

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mailroom/tracker"
)

// extra is a member that an answer adds to an issue.
type extra struct {
	name  string
	value any
}

// shape is an issue in an answer: its line, with members that it has not added.
func shape(t *tracker.Tracker, it *tracker.Issue, more ...extra) json.RawMessage {
	out := []byte(strings.TrimSuffix(t.Line(it), "}"))
	for _, e := range more {
		if it.Has(e.name) {
			continue
		}
		out = append(append(append(out, ','), text(e.name)...), ':')
		out = append(out, text(e.value)...)
	}
	return append(out, '}')
}

// text encodes what answers are made of.
func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts, numbers and raw JSON that was read
	}
	return b
}

// shapes are issues in an answer; none are [].
func shapes(t *tracker.Tracker, issues []*tracker.Issue, more func(*tracker.Issue) []extra) []json.RawMessage {
	list := make([]json.RawMessage, 0, len(issues))
	for _, it := range issues {
		var add []extra
		if more != nil {
			add = more(it)
		}
		list = append(list, shape(t, it, add...))
	}
	return list
}

// counts are what a list adds to each issue.
func counts(t *tracker.Tracker) func(*tracker.Issue) []extra {
	dependents := map[string]int{}
	for _, it := range t.All() {
		for _, d := range it.Dependencies {
			dependents[d.On]++
		}
	}
	return func(it *tracker.Issue) []extra {
		return []extra{
			{"dependency_count", len(it.Dependencies)}, {"dependent_count", dependents[it.ID]}, {"comment_count", len(it.Comments)},
		}
	}
}

// related is an issue as another one's dependency or dependent.
func related(t *tracker.Tracker, it *tracker.Issue, kind string) json.RawMessage {
	return shape(t, it, extra{"dependency_type", kind})
}

// whole is an issue with its dependencies and dependents in full.
func whole(t *tracker.Tracker, it *tracker.Issue) json.RawMessage {
	down, up := []json.RawMessage{}, []json.RawMessage{}
	for _, d := range it.Dependencies {
		if on, err := t.Find(d.On); err == nil && on.ID == d.On {
			down = append(down, related(t, on, d.Type))
		}
	}
	for _, other := range t.Dependents(it.ID) {
		for _, d := range other.Dependencies {
			if d.On == it.ID {
				up = append(up, related(t, other, d.Type))
			}
		}
	}
	var members map[string]json.RawMessage
	line := json.RawMessage(t.Line(it))
	if err := json.Unmarshal(line, &members); err != nil {
		return line // it was read as an object
	}
	members["dependencies"], members["dependents"] = text(down), text(up)
	for name, empty := range map[string]string{"labels": "[]", "comments": "[]"} {
		if members[name] == nil {
			members[name] = json.RawMessage(empty)
		}
	}
	return text(members)
}

func (m *Main) printJSON(v any) error {
	e := json.NewEncoder(m.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func day(at time.Time) string { return at.Local().Format("2006-01-02 15:04") }
