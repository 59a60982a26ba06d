package turn_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mailroom/entry"
	"mailroom/stream/turn"
)

var update = flag.Bool("update", false, "write the logs that the JavaScript client is tested with")

// sharedLog is a log with live text, and what its turns come to. The pages fold the log themselves, to show what they
// have while the server is away; testdata/turns.json holds both programs to one meaning.
type sharedLog struct {
	Name   string        `json:"name"`
	Events []sharedEvent `json:"events"`
	Turns  []string      `json:"turns"`
}

type sharedEvent struct {
	Entry json.RawMessage `json:"entry,omitempty"`
	Delta *entry.Delta    `json:"delta,omitempty"`
}

func share(name string, h *history) sharedLog {
	l := sharedLog{Name: name, Turns: []string{}}
	for _, i := range h.items {
		e := sharedEvent{Delta: i.delta}
		if i.entry != nil {
			e.Entry = i.entry.Raw
		}
		l.Events = append(l.Events, e)
	}
	s := fold(h)
	for _, t := range s.Turns() {
		l.Turns = append(l.Turns, sharedTurn(s, t)...)
	}
	return l
}

// sharedTurn shows what a page shows of a turn. To a page, a run that is tried again is queued, as in the API.
func sharedTurn(s *turn.State, t *turn.Turn) []string {
	status := t.Status
	if status == turn.StatusRetrying {
		status = turn.StatusQueued
	}
	lines := []string{t.Run + " " + string(status)}
	for _, p := range append(append([]*turn.Part{}, t.Parts...), s.Live(t.Run)...) {
		if p.Question != nil && !p.Question.ForPerson() {
			continue
		}
		shown := *p
		shown.From, shown.Usage.InputTokens = 0, 0
		lines = append(lines, line(&shown))
	}
	return lines
}

// TestTheClientsFoldTheSameLogs checks that testdata/turns.json has each log of the other tests, some random ones, and
// what this package makes of them. The test of the JavaScript client folds the same file.
func TestTheClientsFoldTheSameLogs(t *testing.T) {
	var logs []sharedLog
	for _, r := range append(kinds(), ends()...) {
		logs = append(logs, share(r.name, r.h))
	}
	for _, r := range append(replaced(), besides()...) {
		logs = append(logs, share(r.name, r.h))
	}
	for seed := range 20 {
		w := rapid.Custom(drawHistory).Example(seed)
		logs = append(logs, share("random", &w.history))
	}
	var b bytes.Buffer
	b.WriteString("[")
	for i, l := range logs {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n")
		b.Write(raw(l))
	}
	b.WriteString("\n]\n")
	const file = "../../testdata/turns.json"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), b.String()); diff != "" {
		t.Errorf("run go test ./stream/turn -update, and the tests of clients/js:\n%s", diff)
	}
}
