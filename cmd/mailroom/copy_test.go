package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/app/datadir"
	"mailroom/entry"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// mover copies stores with the command, and checks what it says.
type mover struct {
	t   *testing.T
	url string // of a database
}

// copies runs the command in this process. code is the exit code, and words are in the output.
func (m *mover) copies(from, to string, code int, words string) {
	m.t.Helper()
	var out bytes.Buffer
	got, stderr := (&fixture{t: m.t}).run(m.t.Context(), &out, "store", "copy", "--from", from, "--to", to)
	if got != code || !strings.Contains(out.String()+stderr, words) {
		m.t.Fatalf("copy from %s to %s: exit code %d, %s%s, want %d and %q", from, to, got, out.String(), stderr, code, words)
	}
}

// use makes the database the store of a data folder, or its own file with "".
func (m *mover) use(h *fixture, settings, url string) {
	m.t.Helper()
	if url != "" {
		settings += fmt.Sprintf("[store]\nkind = \"postgres\"\n[postgres]\nurl = %q\n", url)
	}
	h.configure(settings)
}

// list returns what a command prints, without the times of a terminal.
func list(h *fixture, args ...string) string {
	h.t.Helper()
	var out bytes.Buffer
	if code, stderr := h.run(h.t.Context(), &out, args...); code != exitDone {
		h.t.Fatalf("%q: exit code %d: %s", args, code, stderr)
	}
	return out.String()
}

// ids returns the first column of a list.
func ids(h *fixture, args ...string) (ids []string) {
	h.t.Helper()
	for line := range strings.Lines(list(h, args...)) {
		id, _, _ := strings.Cut(line, " ")
		ids = append(ids, id)
	}
	return ids
}

// submitRun submits to the agent and returns the run.
func submitRun(h *fixture, in api.Submit) string {
	h.t.Helper()
	out, err := h.client().Submit(h.t.Context(), in)
	h.must(err)
	return out.Run
}

// TestAStoreMovesToPostgreSQLAndBack copies a store with running, queued, scheduled and waiting runs, tokens
// and projects to a database, continues there, and copies it back.
func TestAStoreMovesToPostgreSQLAndBack(t *testing.T) {
	t.Parallel()
	const gated = "shutdown_grace = \"100ms\"\n" + gatedConfig // the end of a server releases a run
	const settings = "isolation = \"none\"\n" + gated
	h := newFixture(t, gated)
	m := &mover{t: t, url: pgtest.Durable(t).URL()}
	h.serve()
	for _, thread := range []string{"gone", "done"} {
		list(h, "send", "--agent", "echo", "--thread", thread, "hello")
	}
	if code, stderr := h.run(t.Context(), new(bytes.Buffer), "send", "--agent", "tour", "--thread", "asks", "show me"); code != exitWaiting {
		t.Fatal(stderr)
	}
	h.must(h.client().DeleteThread(t.Context(), "gone"))
	list(h, "token", "create", "laptop", "--scope", "read,submit")
	list(h, "token", "create", "visitor", "--scope", "read", "--expires", "1h")
	list(h, "token", "limited", "--scope", "read")
	list(h, "open", "--no-browser")
	list(h, "project", "reserve", "src/**", "--as", "ann")
	list(h, "project", "notify", "hello", "--as", "ann", "--to", "bob")
	running := submitRun(h, api.Submit{Thread: "busy", Text: "first"})
	h.must(awaitEntry(h.dir, "busy", "delta"))
	queued := submitRun(h, api.Submit{Thread: "busy", Text: "second", Key: "once"})
	submitRun(h, api.Submit{Thread: "busy", Text: "aside", Mode: mailroom.ModeSteer, Key: "steered"})
	later := time.Now().Add(time.Hour)
	scheduled := submitRun(h, api.Submit{Thread: "busy", Text: "third", NotBefore: &later})
	m.copies(string(h.dir), m.url, exitFailed, "already uses "+string(h.dir)+": stop it with `mailroom stop --data")
	threads, runs := ids(h, "threads"), ids(h, "runs")
	h.server.kill()

	m.copies(string(h.dir), m.url, exitDone, "equal, and no findings in both stores")
	m.copies(string(h.dir), m.url, exitFailed, "the tables have rows already, in the table thread: name another database or schema")
	m.use(h, settings, m.url)
	h.serve()
	if diff := cmp.Diff([][]string{threads, runs}, [][]string{ids(h, "threads"), ids(h, "runs")}); diff != "" {
		t.Errorf("threads and runs in the database (-want +got):\n%s", diff)
	}
	again, err := h.client().Submit(t.Context(), api.Submit{Thread: "busy", Text: "second", Key: "once"})
	if err != nil || again.Run != queued || again.Disposition != api.DispositionDuplicate {
		t.Errorf("the repeat of a submit: %+v, %v, want run %s again", again, err, queued)
	}
	m.copies(m.url, t.TempDir(), exitFailed, "a server on host ")
	h.openGate("one\n")
	if r := h.waitRun(running); r.Status != mailroom.StatusCompleted || r.Attempt != 2 {
		t.Errorf("the run that was running: %+v, want it completed in its second attempt", r)
	}
	h.openGate("two\n")
	if r := h.waitRun(queued); r.Status != mailroom.StatusCompleted {
		t.Errorf("the run that was queued: %+v, want it completed", r)
	}
	list(h, "deny", "asks")
	h.waitEntries("asks", entry.KindCompleted, 1)
	if got := list(h, "project", "reservations"); !strings.Contains(got, "src/**") {
		t.Errorf("reservations are %q, want that of src/**", got)
	}
	if got := list(h, "project", "inbox", "--as", "bob"); !strings.Contains(got, "hello") {
		t.Errorf("the inbox is %q, want the notification", got)
	}
	runs = ids(h, "runs") // with the steered message as a run of its own
	h.must(h.server.shutdown())

	back := &fixture{t: t, dir: datadir.Dir(filepath.Join(t.TempDir(), "new"))}
	m.copies(string(h.dir), string(back.dir), exitDone, "equal, and no findings in both stores")
	m.use(back, settings, "")
	back.serve()
	if diff := cmp.Diff(runs, ids(back, "runs")); diff != "" {
		t.Errorf("runs in the new file (-want +got):\n%s", diff)
	}
	if got := list(back, "token", "list"); !strings.Contains(got, "laptop") {
		t.Errorf("tokens are %q, want laptop", got)
	}
	if r, err := back.client().Run(t.Context(), scheduled); err != nil || r.Status != mailroom.StatusQueued || r.NotBefore == nil {
		t.Errorf("the scheduled run: %+v, %v", r, err)
	}
	list(back, "send", "--agent", "echo", "--thread", "done", "again")
	h.must(back.server.shutdown())
	list(back, "doctor")
}

// backlog makes a store with queued runs in many threads, a long log and many keys.
func backlog(t *testing.T, dir datadir.Dir, threads int) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), dir.Database(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &store.Changes{}
	for i := range threads {
		l := thread.NewState(&mailroom.Thread{ID: fmt.Sprint("t", i)})
		for j := range 3 {
			in := thread.Submit{
				Thread: l.ID, Run: fmt.Sprint("r", i, "-", j), Key: fmt.Sprint("k", j), Agent: "a", Owner: "ann",
				Messages: []thread.NewMessage{{Parts: mailroom.Text("do")}},
			}
			if _, err := l.Submit(in, thread.Resolved{Agent: "a"}, time.Now().UTC().Truncate(time.Microsecond)); err != nil {
				t.Fatal(err)
			}
		}
		l.Collect(c)
	}
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// killedCopy starts the command in a process of its own and kills it when it prints words. It reports
// whether the command was not done.
func (m *mover) killedCopy(from, to, words string) bool {
	m.t.Helper()
	p := (&fixture{t: m.t}).startProcess(exec.Command("mailroom", "store", "copy", "-v", "--from", from, "--to", to))
	if _, err := p.until(words); err != nil {
		m.t.Fatalf("wait for %q: %v", words, err)
	}
	p.kill()
	return p.exit != nil
}

// TestAKilledCopyIsRefusedByServersAndCanBeRepeated kills the command before, among and behind the rows, in
// both directions.
func TestAKilledCopyIsRefusedByServersAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	m := &mover{t: t, url: pgtest.Durable(t).URL()}
	file, database, back := newFixture(t, ""), newFixture(t, ""), newFixture(t, "")
	m.use(database, "", m.url)
	backlog(t, file.dir, 500)
	for _, x := range []struct {
		from, to string
		server   *fixture // of the target
	}{{string(file.dir), m.url, database}, {string(database.dir), string(back.dir), back}} {
		done := false
		for _, words := range []string{"copying ", "copied ", "comparing ", "checking "} {
			if done = !m.killedCopy(x.from, x.to, words); done {
				break
			}
			for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"doctor"}} {
				if code, stderr := x.server.run(t.Context(), new(bytes.Buffer), args...); code == exitDone || args[0] == "serve" &&
					!strings.Contains(stderr, "unfinished copy of another store: repeat the command `mailroom store copy`") {
					t.Errorf("killed at %q, then %s: exit code %d, %s", words, args[0], code, stderr)
				}
			}
		}
		if !done {
			m.copies(x.from, x.to, exitDone, "compared 500 threads: equal")
		}
		list(x.server, "doctor")
	}
	wantSameFiles(t, file, back)
}

// wantSameFiles checks that two data folders have the same runs in the same order.
func wantSameFiles(t *testing.T, a, b *fixture) {
	t.Helper()
	var lists [2][]string
	for i, h := range []*fixture{a, b} {
		f, err := sqlite.OpenFile(t.Context(), h.dir.Database())
		h.must(err)
		h.must(f.View(t.Context(), func(r store.Reader) error {
			runs, err := r.Runs(store.RunQuery{})
			for _, run := range runs {
				lists[i] = append(lists[i], run.ID)
			}
			return err
		}))
		h.must(f.Close())
	}
	if diff := cmp.Diff(lists[0], lists[1]); diff != "" || len(lists[0]) == 0 {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func TestACopyThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	m := &mover{t: t}
	full, empty := newFixture(t, ""), newFixture(t, "")
	backlog(t, full.dir, 1)
	from, to := string(full.dir), filepath.Join(t.TempDir(), "new")
	link := filepath.Join(t.TempDir(), "link")
	full.must(os.Symlink(from, link))
	const nowhere = "postgres://ann:secret@127.0.0.1:1/mailroom?connect_timeout=1"
	for _, x := range []struct {
		from, to string
		code     int
		words    string
	}{
		{"", to, exitUsage, "--from is empty"},
		{from, "", exitUsage, "--to is empty"},
		{from, link, exitUsage, "--from and --to are the same store"},
		{nowhere, "postgres://bob@127.0.0.1:1/mailroom", exitUsage, "the same store, schema mailroom of database mailroom on 127.0.0.1:1"},
		{filepath.Join(from, "none"), to, exitServer, "none/mailroom.db does not exist"},
		{string(empty.dir), to, exitServer, "does not exist: no server has made a store there"},
		{from, nowhere, exitServer, "target: open store in PostgreSQL: failed to connect"},
		{nowhere, to, exitServer, "check the address, the user with its password"},
		{from, "postgres://ann:sec ret@127.0.0.1/x", exitUsage, "invalid connection string"},
	} {
		m.copies(x.from, x.to, x.code, x.words)
		if _, err := os.Stat(to); err == nil {
			t.Errorf("a refused copy from %s made the target", x.from)
		}
	}
	m.copies(from, to, exitDone, "compared 1 threads")
	m.copies(from, to, exitFailed, "new/mailroom.db already exists: name another folder")
	var out bytes.Buffer
	if code, stderr := full.run(t.Context(), &out, "store", "copy", "--from", from, "--to", to+"2", "-o",
		"json"); code != exitDone || !strings.Contains(out.String(), `"runs":3,`) || stderr != "" {
		t.Errorf("as JSON: exit code %d, %s%s", code, out.String(), stderr)
	}
	if _, stderr := full.run(t.Context(), &out, "store", "copy", "--from", nowhere, "--to", to); strings.Contains(stderr,
		"secret") {
		t.Errorf("an error shows the password: %s", stderr)
	}
}
