package board_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/issues/board"
	"mailroom/issues/workflow"
)

// TestThePromptOfAnIssueIsMadeFromAWorkflow uses a file of Symphony, then one with a fault, then no good one.
func TestThePromptOfAnIssueIsMadeFromAWorkflow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "WORKFLOW.md")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil { // at once
			t.Fatal(err)
		}
	}
	t.Setenv("LINEAR_API_KEY", "lin_api_secret")
	write("---\ntracker:\n  kind: linear\n  api_key: $LINEAR_API_KEY\nhooks:\n  before_run: rm -rf /\nodd: 1\n---\n" +
		"Fix {{ issue.identifier }} ({{ issue.state }}): {{ issue.title }}{% if attempt %}, again {{ attempt }}{% endif %}\n")
	f := newFakeBoard()
	f.add("1")
	f.edit("1", func(it *board.Issue) { it.Status = "Todo" })
	w := newFixture(t, f)
	w.Options.Workflow = workflow.NewPrompt(path)
	w.Start()
	w.waitState(f, "1", board.StateClosed)
	const claimed = "Issue r#1 is claimed for you, codex. Your replies become comments of the issue; do not close it " +
		"yourself.\n"
	if got, want := w.Agent.Input("1"), "Fix GH-1 (Todo): Do 1\n\n"+claimed; got != want {
		t.Errorf("the agent got %q, want %q", got, want)
	}
	for _, note := range []string{"odd", "hooks.before_run is not run"} {
		if log := w.Logs.String(); strings.Count(log, note) != 1 {
			t.Errorf("the log names %q %d times", note, strings.Count(log, note))
		}
	}
	write("{{ issue.nothing }}") // the last good one stays
	w.WaitFor("the fault", func() bool { return strings.Contains(w.Runner.State().LastError, "nothing") })
	f.edit("1", func(it *board.Issue) { it.State = board.StateOpen })
	w.WaitFor("the second run", func() bool { return w.Agent.Count("1") == 2 })
	w.waitState(f, "1", board.StateClosed)
	if got, want := w.Agent.Input("1"), "Fix GH-1 (Todo): Do 1, again 1\n\n"+claimed; got != want {
		t.Errorf("the agent got %q, want %q", got, want)
	}
	w.Stop()
	w.Options.Workflow = workflow.NewPrompt(path) // a server that never read the good one
	f.add("2")
	w.Start()
	w.WaitFor("the reason", func() bool {
		return strings.Contains(w.Runner.State().Blocked, "1 issues wait: ") && w.Agent.Count("2") == 0
	})
	write("---\npolling: {}\n---\n") // a file without a template shows the issue itself
	w.waitState(f, "2", board.StateClosed)
	if got := w.Agent.Input("2"); !strings.HasPrefix(got, "# Do 2\n\nIssue r#2, labelled agent. It is claimed") {
		t.Errorf("the agent got %q", got)
	}
}
