package main

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/internal/machinetest"
	"mailroom/internal/nextversion"
	"mailroom/store"
	"mailroom/store/postgres"
)

// nextKind is the kind of entry of the next version.
const nextKind = "run.noted"

// buildNext builds the server of the next version. The linker ignores names that it does not find, so the program
// shows that it has the kind.
func buildNext(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "mailroom-next")
	mark := "-X " + reflect.TypeFor[nextversion.Note]().PkgPath() + ".kind=" + nextKind
	if err := machinetest.BuildMarked(binary, mark, "../cmd/mailroom"); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(binary); err != nil || !bytes.Contains(raw, []byte(nextKind)) {
		t.Fatalf("the next version has no kind of entry: %v", err)
	}
	return binary
}

// Three servers are replaced one by one with the next version, which adds a column, an index, a field
// of bodies and a kind of entry, and then one by one with this version again. Users work at all of
// them. The journal of their answers fits the log, no run fails, and what the next version has
// written is kept by the writes of this version.
func TestServersAreReplacedWithTheNextVersionAndBackUnderLoad(t *testing.T) {
	this, _ := build(t)
	next := buildNext(t)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	tt, err := newTorture(this, this, filepath.Join(t.TempDir(), "upgrade"), 1, seed)
	if err != nil {
		t.Fatal(err)
	}
	tt.nodes, tt.lease = 3, 3*time.Second
	shrink(tt)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	tt.stop = stop
	n, err := tt.openNodes(ctx)
	defer func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}()
	must := func(err error) {
		t.Helper()
		if err != nil {
			for _, v := range tt.violations() {
				t.Errorf("thread %s: %s", v.thread, v.what)
			}
			t.Fatal(err)
		}
	}
	must(err)
	must(n.startAll(ctx, 0, ""))
	must(tt.openThreads(ctx, n.servers[0]))
	continued := func() bool { // while both versions start runs
		return slices.ContainsFunc(tt.allLogs(), func(l *threadLog) bool {
			if strings.HasPrefix(l.thread, "gone-") {
				return false // its log is not kept
			}
			_, later := countNotes(t, l)
			return later > 0
		})
	}
	for i, r := range []replacement{
		{server: 0, program: next}, {server: 1, program: next, killed: true, once: continued}, {server: 2, program: next},
		{server: 0, program: this}, {server: 1, program: this}, {server: 2, program: this, killed: true},
	} {
		must(n.replace(ctx, r, plan{kind: byChance, pace: 30, seed: seed + uint64(i)}))
	}
	must(tt.finish(ctx, n.servers[0]))
	wantNoFailure(t, tt, n.servers[1])
	n.killAll()
	tt.runDoctor(ctx, "stopped")
	must(tt.doctor(ctx, next, ""))
	must(context.Cause(ctx))
	wantNotes(t, n)
	if n := tt.counts.facts.Load(); n < 100 {
		t.Errorf("the histories have %d facts, want more", n)
	}
}

// shrink leaves few threads and readers, so that the versions often take turns in a thread, and no
// agent that fails on purpose.
func shrink(tt *torture) {
	tt.threads.torture, tt.threads.hub, tt.threads.tour = nil, nil, tt.threads.tour[:1]
	tt.threads.echo = []string{tt.threads.echo[0], tt.threads.echo[1], tt.threads.echo[2], tt.threads.delivers}
	maps.DeleteFunc(tt.steady, func(thread string, _ *reader) bool { return !slices.Contains(tt.threads.all(), thread) })
	tt.roving = tt.roving[:2]
}

// wantNoFailure checks that no run has failed.
func wantNoFailure(t *testing.T, tt *torture, s *process) {
	t.Helper()
	at := tt.target(s)
	defer at.http.CloseIdleConnections()
	c := client.New(at.url, at.token, client.WithHTTPClient(at.http))
	failed, err := c.Runs(t.Context(), client.ListQuery{Q: "status:failed"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range failed.Items {
		t.Errorf("run %s of agent %s failed: %+v", r.ID, r.Agent, r.Error)
	}
}

// wantNotes compares the entries of the next version with the field and the column that count them.
func wantNotes(t *testing.T, n *nodes) {
	t.Helper()
	columns := map[string]int64{}
	rows, err := n.database.Select(t.Context(), "SELECT id, coalesce(noted, 0) FROM mailroom.thread")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if columns[row[0]], err = strconv.ParseInt(row[1], 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	s, err := postgres.Open(t.Context(), postgres.Options{URL: n.database.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var threads []*mailroom.Thread
	err = s.View(t.Context(), func(r store.Reader) (err error) {
		threads, err = r.Threads(store.ThreadQuery{Oldest: true, Limit: 1000})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, row := range threads {
		if strings.HasPrefix(row.ID, "gone-") {
			continue // its log is not kept
		}
		notes, later := countNotes(t, n.torture.log(row.ID))
		if field := nextversion.Noted(row.Newer); field != notes || columns[row.ID] != notes {
			t.Errorf("thread %s: %d entries of the next version, its field counts %d and its column %d", row.ID, notes, field,
				columns[row.ID])
		}
		kept += later
	}
	t.Logf("the next version continued its count %d times after starts by this version", kept)
	if kept == 0 {
		t.Error("the next version never continued its count after a start by this version")
	}
}

// countNotes returns the number of entries of the next version in a log, whose numbers must have no
// gap, and how many of them follow a start by this version.
func countNotes(t *testing.T, l *threadLog) (notes int64, later int) {
	t.Helper()
	entries, _ := l.entriesFrom(1)
	without := false // this version has started a run since the last note
	for i, e := range entries {
		switch e.Kind {
		case entry.KindStarted, entry.KindResumed:
			without = without || i+1 == len(entries) || entries[i+1].Kind != nextKind
		case nextKind:
			var body nextversion.Note
			if err := e.Decode(&body); err != nil || body.N != notes+1 {
				t.Errorf("thread %s, entry %d: note %d and error %v, want note %d", l.thread, e.Seq, body.N, err, notes+1)
			}
			notes++
			if without && notes > 1 {
				later++
			}
			without = false
		}
	}
	return notes, later
}
