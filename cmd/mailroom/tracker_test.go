package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gofrs/flock"
	"github.com/rogpeppe/go-internal/testscript"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/issues/tracker"
)

// trackerFixture is a server that watches a tracker and submits its issues to a command, which records
// its inputs.
type trackerFixture struct {
	*fixture
	tracker tracker.Folder
	server  process
}

// newTrackerFixture returns a fixture whose command runs the shell code more before it replies.
func newTrackerFixture(t *testing.T, more string) *trackerFixture {
	t.Helper()
	project := t.TempDir()
	w := &trackerFixture{tracker: tracker.FolderAt(filepath.Join(project, ".beads"))}
	if err := w.tracker.Init(); err != nil {
		t.Fatal(err)
	}
	w.fixture = newFixture(t,
		fmt.Sprintf("[agents.fix]\nkind = \"exec\"\nenv_allow = [\"PATH\"]\ncommand = [\"sh\", \"-c\", %q]\n"+
			"[tracker]\nfolder = %q\nagent = \"fix\"\ninterval = \"20ms\"\n", "read -r _ title; echo \"$title\" >>inputs; "+more+
			" echo \"$title is done\"", project))
	settings, err := os.ReadFile(w.dir.Config())
	if err != nil {
		t.Fatal(err)
	}
	in := strings.Replace(string(settings), "[tracker]", fmt.Sprintf("dir = %q\n[tracker]", string(w.dir)), 1)
	if err := os.WriteFile(w.dir.Config(), []byte(in), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// start starts the server and waits until its channel is connected.
func (w *trackerFixture) start() {
	w.t.Helper()
	w.process(&w.server)
	w.wait("the channel to be connected", func() bool {
		channels, err := w.client().Channels(w.t.Context())
		return err == nil && channels[0].State == api.ChannelConnected
	})
}

func (w *trackerFixture) wait(what string, good func() bool) {
	w.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitTimeout); !good(); <-tick.C {
		if time.Now().After(end) {
			w.t.Fatalf("timeout waiting for %s", what)
		}
	}
}

// create adds the issue for the agent.
func (w *trackerFixture) create() {
	w.t.Helper()
	_, err := w.tracker.Update(w.t.Context(), func(t *tracker.Tracker) error {
		_, err := t.Create(tracker.NewIssue{Issue: tracker.Issue{ID: "x-roof", Title: "Roof"}},
			tracker.Signature{Actor: "ann", At: time.Now()})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *trackerFixture) issue() *tracker.Issue {
	w.t.Helper()
	t, _, err := w.tracker.Read()
	if err != nil {
		w.t.Fatal(err)
	}
	it, err := t.Find("x-roof")
	if err != nil {
		w.t.Fatal(err)
	}
	return it
}

// agentCalls returns the number of attempts of the agent.
func (w *trackerFixture) agentCalls() int {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(string(w.dir), "inputs"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Count(string(raw), "\n")
}

// runs returns the runs of a thread.
func (w *trackerFixture) runs(thread string) []api.Run {
	w.t.Helper()
	page, err := w.client().Runs(w.t.Context(), client.ListQuery{Q: "thread:" + client.Quote(thread)})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Items
}

// done reports whether the issue is closed and all runs and deliveries have ended.
func (w *trackerFixture) done() bool {
	if w.issue().Status != tracker.StatusClosed {
		return false
	}
	all := append(w.runs("issue:x-roof"), w.runs("out:issue:x-roof")...)
	for _, r := range all {
		if !r.Status.Finished() {
			return false
		}
	}
	return len(all) >= 2
}

// holdStore blocks the server's commits until release is called.
func (w *trackerFixture) holdStore() (release func()) {
	w.t.Helper()
	db, err := sql.Open("sqlite", w.dir.Database()+"?_pragma=busy_timeout(5000)")
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err == nil {
		_, err = conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return func() {
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		for _, err := range []error{err, conn.Close(), db.Close()} {
			if err != nil {
				w.t.Error(err)
			}
		}
	}
}

// holdTracker holds the lock of the file until release is called.
func (w *trackerFixture) holdTracker() (release func()) {
	w.t.Helper()
	lock := flock.New(filepath.Join(w.tracker.Path(), "issues.lock"))
	if err := lock.Lock(); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		if err := lock.Unlock(); err != nil {
			w.t.Error(err)
		}
	}
}

// TestAServerThatIsKilledDoesEachIssueOnce kills the server at each step of an issue's processing.
func TestAServerThatIsKilledDoesEachIssueOnce(t *testing.T) {
	const wait = "cat gate;"
	completed := func(w *trackerFixture) {
		w.wait("the end of the run", func() bool {
			runs := w.runs("issue:x-roof")
			return len(runs) == 1 && runs[0].Status == mailroom.StatusCompleted
		})
	}
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "KILLED\tRUNS\tATTEMPTS\tCOMMENTS\tSTATUS")
	for _, c := range []struct {
		when     string
		more     string
		until    func(w *trackerFixture) (release func())
		attempts int
	}{
		{"between claim and submit", "", func(w *trackerFixture) func() {
			release := w.holdStore()
			w.create()
			w.wait("the claim of the issue", func() bool { return w.issue().Status == tracker.StatusInProgress })
			return release
		}, 1},
		{"during the run", "test $MAILROOM_ATTEMPT != 1 || cat gate;", func(w *trackerFixture) func() {
			w.create()
			w.wait("the start of the agent", func() bool { return w.agentCalls() == 1 })
			return func() {}
		}, 2},
		{"between the run and its delivery", wait, func(w *trackerFixture) func() {
			w.create()
			w.wait("the start of the agent", func() bool { return w.agentCalls() == 1 })
			release := w.holdTracker()
			w.openGate("")
			completed(w)
			return release
		}, 1},
		{"after the comment, before its receipt", wait, func(w *trackerFixture) func() {
			w.create()
			w.wait("the start of the agent", func() bool { return w.agentCalls() == 1 })
			release := w.holdTracker()
			w.openGate("")
			completed(w)
			if err := awaitEntry(w.dir, "out:issue:x-roof", entry.KindStarted); err != nil {
				t.Fatal(err)
			}
			restore := w.holdStore()
			release()
			w.wait("the comment", func() bool { return len(w.issue().Comments) == 1 })
			return restore
		}, 1},
	} {
		t.Run(c.when, func(t *testing.T) {
			w := newTrackerFixture(t, c.more)
			w.start()
			release := c.until(w)
			w.server.kill()
			release()
			w.start()
			w.wait("the end of all work", w.done)
			it, runs, attempts := w.issue(), w.runs("issue:x-roof"), w.agentCalls()
			if len(runs) != 1 || attempts != c.attempts || len(it.Comments) != 1 || it.Comments[0].Text != "Roof is done" ||
				it.CloseReason != "Roof is done" {
				t.Errorf("%d runs, %d attempts, want 1 and %d; close reason %q, %d comments, want \"Roof is done\" and 1",
					len(runs), attempts, c.attempts, it.CloseReason, len(it.Comments))
			}
			fmt.Fprintf(tab, "%s\t%d\t%d\t%d\t%s\n", c.when, len(runs), attempts, len(it.Comments), it.Status)
		})
	}
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// scriptBecomes waits until an issue of the tracker in the current folder has a status.
func scriptBecomes(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: becomes ID STATUS")
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitTimeout); ; <-tick.C {
		t, _, err := tracker.FolderAt(ts.MkAbs(".beads")).Read()
		ts.Check(err)
		it, err := t.Find(args[0])
		ts.Check(err)
		if string(it.Status) == args[1] {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s is %s, want %s", args[0], it.Status, args[1])
		}
	}
}
