package bd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/internal/recovery"
	"mailroom/issues/tracker"
)

// extra is a JSON member that output adds to an issue.
type extra struct {
	name  string
	value any
}

// issueJSON returns the issue's line with extra members. A member that the line already has is
// kept, but a count of it is renewed.
func issueJSON(t *tracker.Tracker, it *tracker.Issue, more ...extra) json.RawMessage {
	return appendIssueJSON(nil, t, it, more)
}

func appendIssueJSON(out []byte, t *tracker.Tracker, it *tracker.Issue, more []extra) []byte {
	line := t.Line(it)
	for _, e := range more {
		if isCount(e.name) && it.HasForeign(e.name) { // another program counted it when it wrote the line
			line = tracker.SetMember(line, e.name, string(text(e.value)), true)
		}
	}
	out = append(out, strings.TrimSuffix(strings.TrimRight(line, " \t"), "}")...)
	for _, e := range more {
		if it.HasForeign(e.name) {
			continue
		}
		out = append(append(append(out, `,"`...), e.name...), `":`...)
		out = append(out, text(e.value)...)
	}
	return append(out, '}')
}

// isCount reports whether a member counts other members of issues, so that a value on the line may be an old one.
func isCount(name string) bool {
	return name == "dependency_count" || name == "dependent_count" || name == "comment_count"
}

// text encodes a value as JSON.
func text(v any) []byte {
	if n, ok := v.(int); ok { // fast path: a list has three per issue
		return strconv.AppendInt(nil, int64(n), 10)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail: strings, numbers and parsed JSON
	}
	return b
}

// issuesJSON returns issues as JSON; the result is never nil.
func issuesJSON(t *tracker.Tracker, issues []*tracker.Issue, more func(*tracker.Issue) []extra) []json.RawMessage {
	list := make([]json.RawMessage, 0, len(issues))
	for _, it := range issues {
		var add []extra
		if more != nil {
			add = more(it)
		}
		list = append(list, issueJSON(t, it, add...))
	}
	return list
}

// counts returns a function that gives the extra members of an issue in a list: the numbers of its relations.
func counts(t *tracker.Tracker) func(*tracker.Issue) []extra {
	dependents := t.CountDependents()
	return func(it *tracker.Issue) []extra {
		return []extra{
			{"dependency_count", len(it.Dependencies)}, {"dependent_count", dependents(it)}, {"comment_count", len(it.Comments)},
		}
	}
}

// relatedJSON returns an issue as a dependency or dependent of another.
func relatedJSON(t *tracker.Tracker, it *tracker.Issue, kind string) json.RawMessage {
	return issueJSON(t, it, extra{"dependency_type", kind})
}

// fullIssueJSON returns an issue with its dependencies, its dependents and its run.
func fullIssueJSON(t *tracker.Tracker, it *tracker.Issue, run *Run) json.RawMessage {
	down, up := []json.RawMessage{}, []json.RawMessage{}
	for _, d := range it.Dependencies {
		if on, err := t.Find(d.On); err == nil && on.ID == d.On {
			down = append(down, relatedJSON(t, on, d.Type))
		}
	}
	for _, other := range t.Dependents(it.ID) {
		for _, d := range other.Dependencies {
			if d.On == it.ID {
				up = append(up, relatedJSON(t, other, d.Type))
			}
		}
	}
	line := t.Line(it)
	for _, name := range []string{"labels", "comments"} {
		line = tracker.SetMember(line, name, "[]", false)
	}
	line = tracker.SetMember(line, "dependencies", string(text(down)), true)
	line = tracker.SetMember(line, "dependents", string(text(up)), true)
	if run != nil {
		line = tracker.SetMember(line, "run", string(run.JSON), true)
	}
	return json.RawMessage(line)
}

// printIssuesJSON streams issues in the format of printJSON, because a list may be as large as the
// file. It calls more on several goroutines.
func (o *output) printIssuesJSON(t *tracker.Tracker, found []*tracker.Issue, more func(*tracker.Issue) []extra) error {
	if len(found) == 0 {
		return o.printJSON(found)
	}
	const piece = 64 // issues
	pieces := make(chan chan []byte, runtime.GOMAXPROCS(0))
	spare := make(chan []byte, cap(pieces)) // buffers to reuse, because fresh memory is slow
	go func() {
		defer recovery.Log(nil, "the printing of issues")
		defer close(pieces)
		for at := 0; at < len(found); at += piece {
			some := found[at:min(at+piece, len(found))]
			done := make(chan []byte, 1)
			pieces <- done // blocks while enough chunks are pending
			go func() {
				defer recovery.Handle(nil, "the printing of issues", func(*recovery.Panic) { done <- nil })
				var buffer []byte
				select {
				case buffer = <-spare:
				default:
				}
				done <- formatChunk(buffer, t, some, at == 0, more)
			}()
		}
	}()
	var failed error
	for done := range pieces { // drain the channel even after a failure, so that the goroutines end
		text := <-done
		if text == nil && failed == nil {
			failed = errors.New("some issues could not be printed")
		}
		if failed == nil {
			_, failed = o.stdout.Write(text)
		}
		select {
		case spare <- text[:0]:
		default:
		}
	}
	if failed == nil {
		_, failed = io.WriteString(o.stdout, "\n]\n")
	}
	if failed != nil {
		return fmt.Errorf("print: %w", failed)
	}
	return nil
}

// formatChunk appends part of a list, each issue preceded by its separator.
func formatChunk(
	out []byte, t *tracker.Tracker, some []*tracker.Issue, first bool, more func(*tracker.Issue) []extra,
) []byte {
	size := 0
	for _, it := range some {
		const reserve = 300 // bytes for extra members and white space
		size += len(t.Line(it)) + reserve
	}
	out = slices.Grow(out, size)
	var shaped []byte
	for _, it := range some {
		before := byte(',')
		if first {
			before, first = '[', false
		}
		out = append(out, before)
		shaped = appendIssueJSON(shaped[:0], t, it, more(it))
		out = appendIndented(append(out, "\n  "...), shaped, 1)
	}
	return out
}

// appendIndented appends valid JSON with one member per line. It is ten times as fast as
// encoding/json, which validates its input.
func appendIndented(out, raw []byte, depth int) []byte {
	const margin = "\n                " // long enough for common depths
	line := func() {
		if n := 1 + 2*depth; n <= len(margin) {
			out = append(out, margin[:n]...)
		} else {
			out = append(append(out, '\n'), strings.Repeat("  ", depth)...)
		}
	}
	for at := 0; at < len(raw); at++ {
		switch c := raw[at]; c {
		case '"':
			end := at + textLen(raw[at:])
			out = append(out, raw[at:end]...)
			at = end - 1
		case '{', '[':
			out = append(out, c)
			for at+1 < len(raw) && raw[at+1] <= ' ' {
				at++
			}
			if at+1 < len(raw) && raw[at+1] == c+2 { // the bracket that closes it
				at++
				out = append(out, c+2)
				continue
			}
			depth++
			line()
		case '}', ']':
			depth--
			line()
			out = append(out, c)
		case ',':
			out = append(out, c)
			line()
		case ':':
			out = append(out, ": "...)
		case ' ', '\t', '\n', '\r':
		default:
			out = append(out, c)
		}
	}
	return out
}

// textLen returns the length of the JSON string at the start of raw.
func textLen(raw []byte) int {
	for at := 1; ; {
		next := bytes.IndexByte(raw[at:], '"')
		if next < 0 {
			return len(raw)
		}
		at += next + 1
		slashes := 0
		for raw[at-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
	}
}

func day(at time.Time) string {
	if at.IsZero() {
		return "at an unknown time" // written by a program, or a person, that left it out
	}
	return at.Local().Format("2006-01-02 15:04")
}
