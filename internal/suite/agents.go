package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// realAgents are the programs that make test-real-agents runs, in the order of the columns of its table.
func realAgents() []string {
	return []string{"claude", "codex", "gemini", "opencode", "claude-agent-acp", "codex-acp"}
}

// agentTable has what became of each case with each agent.
type agentTable struct {
	cases []string                     // in the order in which they ended
	cells map[string]map[string]string // by case and agent
}

// add records a result. A case that has failed once stays so.
func (t *agentTable) add(name, agent, result string) {
	if t.cells == nil {
		t.cells = map[string]map[string]string{}
	}
	if t.cells[name] == nil {
		t.cases, t.cells[name] = append(t.cases, name), map[string]string{}
	}
	if t.cells[name][agent] != "FAIL" {
		t.cells[name][agent] = result
	}
}

// String returns the table. A dash says that there is no such case with the agent.
func (t *agentTable) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	columns := append(realAgents(), "any")
	fmt.Fprintln(w, "CASE\t"+strings.ToUpper(strings.Join(columns, "\t")))
	for _, name := range t.cases {
		row := []string{name}
		for _, agent := range columns {
			cell := t.cells[name][agent]
			if cell == "" {
				cell = "-"
			}
			row = append(row, cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // to memory
	return text.String()
}

// agentRun follows the output of go test -json of tests that are named TestReal….
type agentRun struct {
	table   agentTable
	print   func(text string)
	parents map[string]bool // tests with subtests, whose own end is no case
	output  map[string]*tail
	failed  int
}

// readAfter is a line in the log of a test of bells: a step, and how long its message waited for the session.
func readAfter() *regexp.Regexp {
	return regexp.MustCompile(`^\s+\S+\.go:\d+: (.+?)\s+read after (\S+)\n$`)
}

func (r *agentRun) line(text string) {
	var e event
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &e) != nil || e.Test == "" {
		switch {
		case e.Action == "":
			r.print(text) // a message of go or make
		case e.Action == "build-output" || e.Action == "output" && strings.HasPrefix(e.Output, "panic"):
			r.print(strings.TrimSuffix(e.Output, "\n"))
		case e.Action == "fail":
			r.failed++
			r.print("FAIL " + e.Package)
		}
		return
	}
	name, agent := agentCase(e.Test)
	switch e.Action {
	case "run":
		if at := strings.LastIndexByte(e.Test, '/'); at > 0 {
			r.parents[e.Test[:at]] = true
		}
		r.output[e.Test] = &tail{most: mostOutput}
	case "output":
		if r.output[e.Test] != nil {
			r.output[e.Test].add(e.Output)
		}
		if step := readAfter().FindStringSubmatch(e.Output); step != nil {
			r.table.add("rung: "+step[1], agent, step[2])
		}
	case "pass", "skip", "fail":
		r.end(e, name, agent)
	}
}

func (r *agentRun) end(e event, name, agent string) {
	result := map[string]string{"pass": fmt.Sprintf("%.1fs", e.Elapsed), "skip": "skipped", "fail": "FAIL"}[e.Action]
	if !r.parents[e.Test] {
		r.table.add(name, agent, result)
		r.print(fmt.Sprintf("%-8s %s", result, e.Test))
	}
	if e.Action == "fail" && r.output[e.Test] != nil {
		r.print(r.output[e.Test].String())
	}
	delete(r.output, e.Test)
}

// agentCase returns the case and the agent that the name of a test says; the agent is any if it says none.
func agentCase(test string) (name, agent string) {
	parts := strings.Split(test, "/")
	agent = "any"
	words := []string{sentence(strings.TrimPrefix(parts[0], "TestReal"))}
	longest := slices.SortedFunc(slices.Values(realAgents()), func(a, b string) int { return len(b) - len(a) })
	for _, part := range parts[1:] {
		for _, a := range longest {
			if rest, ok := strings.CutPrefix(part, a); ok && (rest == "" || rest[0] == '_') {
				agent, part = a, strings.TrimPrefix(rest, "_")
				break
			}
		}
		if part != "" {
			words = append(words, strings.ReplaceAll(part, "_", " "))
		}
	}
	for _, a := range longest {
		if agent == "any" && strings.Contains(strings.ToLower(parts[0]), a) {
			agent = a
		}
	}
	return strings.Join(words, ", "), agent
}

// sentence returns the words of a name in camel case.
func sentence(name string) string {
	var text strings.Builder
	for i, c := range name {
		begins := i > 0 && unicode.IsUpper(c) && (!unicode.IsUpper(rune(name[i-1])) || // ACPAgents, IsATicket
			i+1 < len(name) && unicode.IsLower(rune(name[i+1])))
		if begins {
			text.WriteByte(' ')
		}
		text.WriteRune(unicode.ToLower(c))
	}
	return text.String()
}

// testAgents runs a command that prints the output of go test -json, and prints the table. It reports whether all cases
// passed, and fails if none ran.
func testAgents(ctx context.Context, s *screen, args []string) bool {
	r := &agentRun{print: s.print, parents: map[string]bool{}, output: map[string]*tail{}}
	err := runCommand(ctx, args, r.line, s.print)
	for _, test := range slices.Sorted(maps.Keys(r.output)) { // go test was ended, by its timeout or by a person
		if !r.parents[test] {
			name, agent := agentCase(test)
			r.table.add(name, agent, "unfinished")
			s.print("unfinished: " + test + "\n" + r.output[test].String())
		}
	}
	s.print("\n" + r.table.String())
	if err == nil && r.failed == 0 && len(r.table.cases) > 0 {
		s.say("ok: make test-real-agents passed")
		return true
	}
	s.say("FAILED: make test-real-agents: %d packages failed, %d cases ran (%v)", r.failed, len(r.table.cases), err)
	return false
}
