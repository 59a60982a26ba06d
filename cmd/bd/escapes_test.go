package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode"
)

// TestTextOfAFileCannotControlTheTerminal reads a file whose texts contain control and invisible
// characters. Output for people shows them escaped; JSON is unchanged.
func TestTextOfAFileCannotControlTheTerminal(t *testing.T) {
	const evil = "a\x1b[2Jb\x1b]0;t\x07c\u009bd\u202ee\u200bf\x7f"
	p := newPlace(t)
	text := func(s string) string {
		raw, err := json.Marshal(s)
		check(t, err)
		return string(raw)
	}
	var lines []string
	for _, issue := range []struct{ id, status, more string }{
		{"x-" + evil, evil, `"labels":[` + text(evil) + `]`},
		{"x-open", "open", `"dependencies":[{"issue_id":"x-open","depends_on_id":` + text("x-"+evil) + `,"type":` + text(evil) +
			`},{"issue_id":"x-open","depends_on_id":` + text("x-h"+evil) + `,"type":"blocks"}],"comments":[{"id":1,"author":` +
			text(evil) + `,"text":` + text(evil) + `,"created_at":"2026-01-02T03:04:05Z"}]`},
		{"x-h" + evil, "open", `"dependencies":[{"issue_id":"x","depends_on_id":"x-loop","type":"blocks"}]`},
		{"x-loop", "open", `"dependencies":[{"issue_id":"x","depends_on_id":` + text("x-h"+evil) + `,"type":"blocks"}]`},
		{"x-closed", "closed", `"close_reason":` + text(evil) + `,"closed_at":"2026-01-02T03:04:05Z"`},
		{"x-gone", "tombstone", `"deleted_by":` + text(evil) + `,"delete_reason":` + text(evil) + `,"deleted_at":"2026-01-02T03:04:05Z"`},
	} {
		lines = append(lines, `{"id":`+text(issue.id)+`,"title":`+text(evil)+`,"description":`+text(evil)+
			`,"design":`+text(evil)+
			`,"acceptance_criteria":`+text(evil)+`,"notes":`+text(evil)+`,"status":`+text(issue.status)+
			`,"priority":2,"issue_type":`+text(evil)+
			`,"assignee":`+text(evil)+`,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z",`+issue.more+`}`)
	}
	lines = append(lines, evil)
	file := strings.Join(lines, "\n") + "\n"
	unseen := func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }
	for _, args := range []string{
		"list --all", "ready", "ready --explain", "blocked", "stale", "search a", "count --by-status", "count --by-assignee",
		"count --by-type", "count --by-label", "stats",
		"show x-open", "show x-closed", "show x-gone", "show x-" + evil, "show -", "dep tree x-open", "dep cycles",
		"label list x-" + evil, "label list-all", "comments x-open",
		"epic status", "doctor", "info", "update x-open --claim", "update x-closed --title " + evil,
		"close x-open --reason " + evil, "label add x-open " + evil,
		"delete x-loop --force", "delete x-open", "create " + evil, "comments add x-open " + evil,
		"dep add x-closed x-" + evil,
	} {
		check(t, os.WriteFile(p.file(), []byte(file), 0o644))
		out, stderr, _ := p.run(evil, strings.Fields(args)...) // some commands fail: their errors count as well
		if at := strings.IndexFunc(out+stderr, unseen); at >= 0 {
			t.Errorf("bd %q prints %q, want it escaped", args, out+stderr)
		}
	}
	if out := p.must("ann", "show", "x-open", "--json"); !strings.Contains(out, `c\u009bd`) && !strings.Contains(out,
		"c\u009bd") {
		t.Errorf("bd --json changed the text: %s", out)
	}
}
