package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom"
	"mailroom/api"
	"mailroom/channel/platformtest"
	"mailroom/client"
	"mailroom/issues/board/boardtest"
)

// TestAServerThatIsKilledDoesEachIssueOfLinearOnce kills the server before and after each kind of call that an issue
// needs: before it is carried out, and before its answer arrives.
func TestAServerThatIsKilledDoesEachIssueOfLinearOnce(t *testing.T) {
	t.Parallel()
	calls := []string{"viewer", "issues", "issue", "team", "issueUpdate", "commentCreate"}
	f, project := newFixture(t, ""), boardtest.NewLinear(t, 2*len(calls))
	for n := range 2 * len(calls) {
		project.Edit(fmt.Sprint("R-", n+1), func(it boardtest.Object) { it["state"] = boardtest.LinearState("R", "Backlog") })
	}
	token := filepath.Join(string(f.dir), "board.token")
	if err := os.WriteFile(token, []byte(boardtest.LinearToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.configure(fmt.Sprintf(`isolation = "none"
[agents.fix]
kind = "exec"
command = ["sh", "-c", "read -r _ title; echo \"$title is done\""]
[boards.roof]
kind = "linear"
project = %q
url = "http://%s"
agent = "fix"
labels = ["agent"]
token_file = %q
interval = "20ms"
`, "roof-"+boardtest.LinearProject, project.Addr, token))
	f.serve()
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "KILLED\tRUNS\tCOMMENTS\tSTATE")
	number := 0
	for _, call := range calls {
		for when, fault := range map[string]platformtest.Fault{"before": {Hang: true}, "after": {Hold: make(chan struct{})}} {
			number++
			name, before := fmt.Sprint("R-", number), len(project.Calls(call))
			if call == "viewer" || call == "team" { // once for each server
				f.server.kill()
				before = len(project.Calls(call))
				project.Fail(call, fault)
				f.serve()
			} else {
				project.Fail(call, fault)
			}
			project.Edit(name, func(it boardtest.Object) { it["state"] = boardtest.LinearState("R", "Todo") })
			project.WaitFor(t, call, func() bool { return len(project.Calls(call)) > before })
			f.server.kill()
			project.ClearFaults()
			f.serve()
			runs, settled := []api.Run(nil), false
			platformtest.WaitFor(t, name+" to be done", func() bool {
				runs, settled = linearRuns(f, project.ID(name))
				return settled && project.State(name) == "Done"
			})
			comments, want := project.Texts(name), strings.Replace(name, "R-", "Do ", 1)+" is done"
			if len(runs) != 1 || runs[0].Status != mailroom.StatusCompleted || !slices.Equal(comments, []string{want}) {
				t.Errorf("killed %s %s: %d runs, comments %q", when, call, len(runs), comments)
			}
			fmt.Fprintf(tab, "%s %s\t%d\t%d\t%s\n", when, call, len(runs), len(comments), project.State(name))
		}
	}
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
	for n := range number { // what a restart reads again starts nothing
		name := fmt.Sprint("R-", n+1)
		if runs, settled := linearRuns(f, project.ID(name)); len(runs) != 1 || !settled || len(project.Texts(name)) != 1 {
			t.Errorf("%s has %d runs and the comments %q", name, len(runs), project.Texts(name))
		}
	}
}

// linearRuns returns the runs of an issue, and whether all of them and their deliveries have ended.
func linearRuns(f *fixture, id string) (runs []api.Run, settled bool) {
	settled = true
	for i, thread := range []string{"roof:", "out:roof:"} {
		page, err := f.client().Runs(f.t.Context(), client.ListQuery{Q: "thread:" + client.Quote(thread+id)})
		if err != nil {
			f.t.Fatal(err)
		}
		if i == 0 {
			runs = page.Items
		}
		settled = settled && !slices.ContainsFunc(page.Items, func(r api.Run) bool { return !r.Status.Finished() })
	}
	return runs, settled && len(runs) > 0
}

// TestABoardMakesPromptsFromAWorkflow runs a server whose board names a WORKFLOW.md.
func TestABoardMakesPromptsFromAWorkflow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "WORKFLOW.md")
	text := "---\ntracker:\n  kind: github\n  api_key: $GITHUB_TOKEN\n---\nRepair\n{{ issue.title }}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newBoardFixture(t, "read -r title; echo \"$title\" >>prompts;", fmt.Sprintf("workflow = %q\n", path))
	f.serve()
	f.repo.Add(1, 1)
	f.waitDone(f.fixture, 1, "closed")
	raw, err := os.ReadFile(filepath.Join(string(f.dir), "prompts"))
	if got, want := string(raw), "Do 1\n"; err != nil || got != want {
		t.Errorf("the second line of the prompt is %q, %v, want %q", got, err, want)
	}
}
