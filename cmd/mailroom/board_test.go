package main

import (
	"fmt"
	"net/http"
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

// boardFixture is a server in its own process that assigns the issues of a fake repository of GitHub to a command,
// which records the titles and replies.
type boardFixture struct {
	*fixture
	repo *boardtest.GitHub
}

// newBoardFixture returns a fixture whose command runs the shell code more before it replies. settings are of the
// board.
func newBoardFixture(t *testing.T, more, settings string) *boardFixture {
	t.Helper()
	f := &boardFixture{fixture: newFixture(t, ""), repo: boardtest.NewGitHub(t)}
	token := filepath.Join(string(f.dir), "board.token")
	if err := os.WriteFile(token, []byte(boardtest.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := fmt.Sprintf("cd %q; read -r _ title; echo \"$title\" >>inputs; %s echo \"$title is done\"", string(f.dir),
		more)
	f.configure(fmt.Sprintf(`isolation = "none"
[agents.fix]
kind = "exec"
limit = 1
command = ["sh", "-c", %q]
[boards.roof]
kind = "github"
repository = "ann/roof"
url = %q
agent = "fix"
labels = ["agent"]
token_file = %q
interval = "20ms"
write_pause = "0s"
%s`, command, f.repo.URL, token, settings))
	return f
}

// attempts returns how often the agent got an issue.
func (f *boardFixture) attempts(number int) (n int) {
	f.t.Helper()
	raw, err := os.ReadFile(filepath.Join(string(f.dir), "inputs"))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if line == fmt.Sprintf("Do %d\n", number) {
			n++
		}
	}
	return n
}

// runs returns the runs of an issue, and whether all of them and their deliveries have ended.
func (f *boardFixture) runs(at *fixture, number int) (runs []api.Run, settled bool) {
	f.t.Helper()
	settled = true
	for i, thread := range []string{"roof:", "out:roof:"} {
		q := client.ListQuery{Q: "thread:" + client.Quote(fmt.Sprint(thread, number))}
		page, err := at.client().Runs(f.t.Context(), q)
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

// waitDone waits until an issue has a state and its work has ended, and checks that it was done once, with one comment.
func (f *boardFixture) waitDone(at *fixture, number int, state string) (runs []api.Run) {
	f.t.Helper()
	platformtest.WaitFor(f.t, fmt.Sprintf("issue %d to be %s", number, state), func() (settled bool) {
		runs, settled = f.runs(at, number)
		return settled && f.repo.State(number) == state
	})
	comments, want := f.repo.Texts(number), fmt.Sprintf("Do %d is done", number)
	if len(runs) != 1 || runs[0].Status != mailroom.StatusCompleted || !slices.Equal(comments, []string{want}) {
		f.t.Errorf("issue %d has %d runs, the last %s, and the comments %q", number, len(runs), runs[0].Status, comments)
	}
	return runs
}

// call names a request of a board without the number of its issue.
func call(r *http.Request) string {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/repos/ann/roof"), "/")
	switch {
	case len(path) > 4:
		path[4] = "LABEL"
		fallthrough
	case len(path) > 2 && path[1] == "issues":
		path[2] = "N"
	case r.URL.Query().Get("labels") != "":
		path = append(path, "open")
	}
	return r.Method + " " + strings.Join(path, "/")
}

// TestAServerThatIsKilledDoesEachIssueOfABoardOnce kills the server before and after each kind of call that an issue
// needs, and during the run.
func TestAServerThatIsKilledDoesEachIssueOfABoardOnce(t *testing.T) {
	t.Parallel()
	f := newBoardFixture(t, "test -e open || cat gate;", "")
	if err := os.WriteFile(filepath.Join(string(f.dir), "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "KILLED\tRUNS\tATTEMPTS\tCOMMENTS\tSTATE")
	f.serve()
	number := 0
	for _, at := range []string{"GET /issues/N", "POST /issues/N/labels", "POST /issues/N/comments", "PATCH /issues/N",
		"DELETE /issues/N/labels/LABEL", "GET /issues", "GET /issues/open"} {
		for _, when := range []string{"before", "after"} {
			number++
			reached, gone, first := make(chan struct{}), make(chan struct{}), true
			stop := func(r *http.Request, now string) bool {
				if now != when || call(r) != at || !first {
					return false
				}
				first = false
				close(reached)
				<-gone
				return true
			}
			f.repo.Do(func() {
				f.repo.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
					if stop(r, "before") {
						boardtest.Hang()
					}
					return false
				}
				f.repo.After = func(r *http.Request) bool { return stop(r, "after") }
			})
			if at == "GET /issues/open" { // only the first list of a server
				f.server.kill()
			}
			f.repo.Add(number, 1)
			if at == "GET /issues/open" {
				f.serve()
			}
			<-reached
			f.server.kill()
			close(gone)
			f.serve()
			runs := f.waitDone(f.fixture, number, "closed")
			fmt.Fprintf(tab, "%s %s\t%d\t%d\t%d\t%s\n", when, at, len(runs), f.attempts(number), len(f.repo.Texts(number)),
				f.repo.State(number))
		}
	}
	if err := os.Remove(filepath.Join(string(f.dir), "open")); err != nil {
		t.Fatal(err)
	}
	number++
	f.repo.Add(number, 1)
	platformtest.WaitFor(t, "the start of the agent", func() bool { return f.attempts(number) == 1 })
	f.server.kill()
	f.serve()
	platformtest.WaitFor(t, "the second attempt", func() bool { return f.attempts(number) == 2 })
	f.openGate("")
	runs := f.waitDone(f.fixture, number, "closed")
	fmt.Fprintf(tab, "during the run\t%d\t%d\t%d\t%s\n", len(runs), f.attempts(number), len(f.repo.Texts(number)),
		f.repo.State(number))
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
	for number := 1; number <= len(f.repo.Issues); number++ { // what a restart reads again starts nothing
		f.waitDone(f.fixture, number, "closed")
	}
}

// TestABoardThatIsDownIsReportedAndHarmsNothing takes the repository away, then refuses the token.
func TestABoardThatIsDownIsReportedAndHarmsNothing(t *testing.T) {
	t.Parallel()
	f := newBoardFixture(t, "", "")
	f.serve()
	f.repo.Add(1, 1)
	f.waitDone(f.fixture, 1, "closed")
	if c := f.waitChannel("roof", api.ChannelConnected); c.Kind != "github" || c.Cursor == nil ||
		*c.Cursor != "ann/roof: 0 ready, 4981 requests left" {
		t.Errorf("the channel is %+v", c)
	}
	f.refuse(http.StatusBadGateway, "Server Error")
	down := f.waitChannel("roof", api.ChannelQueued)
	if down.LastError == nil || !strings.Contains(*down.LastError, "502") {
		t.Errorf("the channel is %+v", down)
	}
	if _, err := f.client().Ready(t.Context()); err != nil {
		t.Errorf("the server is not ready: %v", err)
	}
	f.repo.Do(func() { f.repo.Fault = nil })
	f.repo.Add(2, 1)
	f.waitDone(f.fixture, 2, "closed")
	f.server.kill()
	f.refuse(http.StatusUnauthorized, "Bad credentials")
	f.serve()
	failed := f.waitChannel("roof", api.ChannelFailed)
	if failed.LastError == nil || !strings.Contains(*failed.LastError, "the token is refused") ||
		strings.Contains(f.server.output.all()+*failed.LastError, boardtest.Token) {
		t.Errorf("the channel is %+v", failed)
	}
	f.repo.Do(func() { f.repo.Fault = nil })
	f.repo.Add(3, 1)
	token := filepath.Join(string(f.dir), "board.token") // a person replaces it
	if err := os.WriteFile(token, []byte(boardtest.Token+" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.waitDone(f.fixture, 3, "closed")
}

// refuse makes each request fail.
func (f *boardFixture) refuse(status int, message string) {
	f.repo.Do(func() {
		f.repo.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
			f.repo.Refuse(w, status, message)
			return true
		}
	})
}
