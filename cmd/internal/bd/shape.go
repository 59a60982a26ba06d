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
	"mailroom/tracker"
)

// extra is a member that an answer adds to an issue.
type extra struct {
	name  string
	value any
}

// shape is an issue in an answer: its line, with members that it has not added.
func shape(t *tracker.Tracker, it *tracker.Issue, more ...extra) json.RawMessage {
	return appendShape(nil, t, it, more)
}

func appendShape(out []byte, t *tracker.Tracker, it *tracker.Issue, more []extra) []byte {
	out = append(out, strings.TrimSuffix(strings.TrimRight(t.Line(it), " \t"), "}")...)
	for _, e := range more {
		if it.HasForeign(e.name) {
			continue
		}
		out = append(append(append(out, `,"`...), e.name...), `":`...)
		out = append(out, text(e.value)...)
	}
	return append(out, '}')
}

// text encodes what answers are made of.
func text(v any) []byte {
	if n, ok := v.(int); ok { // a list has three for each issue
		return strconv.AppendInt(nil, int64(n), 10)
	}
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
	dependents := t.CountDependents()
	return func(it *tracker.Issue) []extra {
		return []extra{
			{"dependency_count", len(it.Dependencies)}, {"dependent_count", dependents(it)}, {"comment_count", len(it.Comments)},
		}
	}
}

// related is an issue as another one's dependency or dependent.
func related(t *tracker.Tracker, it *tracker.Issue, kind string) json.RawMessage {
	return shape(t, it, extra{"dependency_type", kind})
}

// whole is an issue with its dependencies and dependents in full, and its run.
func whole(t *tracker.Tracker, it *tracker.Issue, run *Run) json.RawMessage {
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

// printShapes prints issues in an answer as printJSON would, and as they come: a
// list may be as large as the file. more is asked on all processors.
func (m *Main) printShapes(t *tracker.Tracker, found []*tracker.Issue, more func(*tracker.Issue) []extra) error {
	if len(found) == 0 {
		return m.printJSON(found)
	}
	const piece = 64 // issues
	pieces := make(chan chan []byte, runtime.GOMAXPROCS(0))
	spare := make(chan []byte, cap(pieces)) // pieces that were printed: fresh memory costs more than filling it
	go func() {
		defer recovery.Log(nil, "the printing of issues")
		defer close(pieces)
		for at := 0; at < len(found); at += piece {
			some := found[at:min(at+piece, len(found))]
			done := make(chan []byte, 1)
			pieces <- done // waits while enough are on their way
			go func() {
				defer recovery.Handle(nil, "the printing of issues", func(*recovery.Panic) { done <- nil })
				var room []byte
				select {
				case room = <-spare:
				default:
				}
				done <- laidOut(room, t, some, at == 0, more)
			}()
		}
	}()
	var failed error
	for done := range pieces { // to the end, whatever fails: until then others are at work
		text := <-done
		if text == nil && failed == nil {
			failed = errors.New("some issues could not be printed")
		}
		if failed == nil {
			_, failed = m.Stdout.Write(text)
		}
		select {
		case spare <- text[:0]:
		default:
		}
	}
	if failed == nil {
		_, failed = io.WriteString(m.Stdout, "\n]\n")
	}
	if failed != nil {
		return fmt.Errorf("print: %w", failed)
	}
	return nil
}

// laidOut is a piece of a list, each issue with what stands before it.
func laidOut(out []byte, t *tracker.Tracker, some []*tracker.Issue, first bool, more func(*tracker.Issue) []extra) []byte {
	size := 0
	for _, it := range some {
		const room = 300 // for what is added, and for spaces
		size += len(t.Line(it)) + room
	}
	out = slices.Grow(out, size)
	var shaped []byte
	for _, it := range some {
		before := byte(',')
		if first {
			before, first = '[', false
		}
		out = append(out, before)
		shaped = appendShape(shaped[:0], t, it, more(it))
		out = indented(append(out, "\n  "...), shaped, 1)
	}
	return out
}

// indented adds valid JSON to out, a member a line. It is what encoding/json does
// ten times slower, as that asks whether it is valid.
func indented(out, raw []byte, depth int) []byte {
	const margin = "\n                " // of what is not very deep
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

// textLen is how long the JSON text is that raw begins with.
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
