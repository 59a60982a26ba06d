//go:build realagents

package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/internal/fakemodel"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/sqlite"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// patience bounds waits; only a failing test reaches it.
const patience = time.Minute

// eachProgram runs f with the real codex and the real claude.
func eachProgram(t *testing.T, f func(t *testing.T, name string)) {
	for _, p := range program.All() {
		t.Run(p.Name, func(t *testing.T) { f(t, p.Name) })
	}
}

// installed returns the path of a program that make test-real-agents has installed.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "programs", "node_modules", ".bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: make test-real-agents installs it", err)
	}
	return path
}

// model starts a fake model for the test.
func model(t *testing.T, play func(fakemodel.Request) fakemodel.Answer) *fakemodel.Server {
	t.Helper()
	m, err := fakemodel.Start(play)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// realFixture is a data folder with a sequence of servers, whose only agent is a real program that
// uses the test's fake model.
type realFixture struct {
	t       *testing.T
	name    string // of the program
	folder  string // all files of the test
	options exec.ProgramOptions

	store  store.Store
	ledger *ledger.Ledger
	bus    *bus.Bus
	stop   func()
}

// newRealFixture starts the first server, after edit has changed the options.
func newRealFixture(t *testing.T, name, url string, edit ...func(*exec.ProgramOptions)) *realFixture {
	t.Helper()
	w := &realFixture{t: t, name: name, folder: t.TempDir(), stop: func() {}}
	env := fakemodel.Environment(url, w.folder)
	w.must(fakemodel.ConfigureCodex(env["CODEX_HOME"], url))
	w.must(os.Mkdir(w.work(""), 0o700))
	w.options = exec.ProgramOptions{Profile: program.Find(name), Program: installed(t, name), Dir: w.work("")}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		w.options.Env = append(w.options.Env, key+"="+env[key])
	}
	for _, f := range edit {
		f(&w.options)
	}
	w.serve()
	t.Cleanup(func() {
		w.stop()
		if t.Failed() {
			w.dump()
		}
	})
	return w
}

// work returns the path of a file in the program's working directory.
func (w *realFixture) work(file string) string { return filepath.Join(w.folder, "work", file) }

func (w *realFixture) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// serve starts a server; w.stop shuts it down.
func (w *realFixture) serve() {
	w.t.Helper()
	a, err := exec.NewProgram(w.options)
	w.must(err)
	store, err := sqlite.Open(w.t.Context(), filepath.Join(w.folder, "mail.db"), sqlite.Options{})
	w.must(err)
	b := bus.New()
	l := ledger.New(store, ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: thread, Entries: entries})
	}})
	e := engine.New(l.Workers(), b, engine.Options{
		Agents: map[string]engine.Agent{w.name: {Agent: a}}, Local: true, ShutdownGrace: time.Millisecond,
		Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
	})
	w.store, w.ledger, w.bus = store, l, b
	engineCtx, quit := context.WithCancel(context.Background())
	ledgerCtx, end := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { w.ended(l.Run(ledgerCtx)) })
	w.must(l.Workers().EndLocalWorkers(w.t.Context(), false))
	both.Go(func() {
		defer end()
		w.ended(e.Run(engineCtx))
	})
	w.stop = sync.OnceFunc(func() {
		quit()
		both.Wait()
		found, err := storetest.Check(context.Background(), store)
		w.ended(err)
		for _, bad := range found {
			w.t.Error(bad)
		}
		w.ended(store.Close())
	})
}

func (w *realFixture) restart() {
	w.t.Helper()
	w.stop()
	w.serve()
}

func (w *realFixture) ended(err error) {
	if err != nil {
		w.t.Error(err)
	}
}

func (w *realFixture) send(threadID, text string, edit ...func(*thread.Submit)) store.Submitted {
	w.t.Helper()
	in := thread.Submit{Thread: threadID, Agent: w.name, Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}}}
	for _, f := range edit {
		f(&in)
	}
	out, err := w.ledger.Submit(w.t.Context(), in)
	w.must(err)
	return out
}

// until waits until f reports success. It calls f again whenever a thread has changed.
func until[T any](w *realFixture, what string, f func(store.Reader) (T, bool, error)) T {
	w.t.Helper()
	notices := w.bus.Subscribe("", 1000)
	defer notices.Close()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		var found T
		var ok bool
		w.must(w.store.View(w.t.Context(), func(r store.Reader) (err error) {
			found, ok, err = f(r)
			return err
		}))
		if ok {
			return found
		}
		select {
		case <-notices.C:
		case <-late.C:
			w.t.Fatalf("timeout waiting for %s", what)
		}
	}
}

// run waits until a run is in one of these states.
func (w *realFixture) run(id string, states ...mailroom.Status) *mailroom.Run {
	w.t.Helper()
	return until(w, "run that is "+string(states[0]), func(r store.Reader) (*mailroom.Run, bool, error) {
		runs, err := r.Runs(store.RunQuery{IDs: []string{id}})
		if err != nil || len(runs) == 0 {
			return nil, false, err
		}
		if runs[0].Status == mailroom.StatusFailed && !slices.Contains(states, mailroom.StatusFailed) {
			w.t.Fatalf("run failed: %+v", runs[0].Error)
		}
		return runs[0], slices.Contains(states, runs[0].Status), nil
	})
}

// ask sends a text and returns the run once it is done.
func (w *realFixture) ask(thread, text string) *mailroom.Run {
	w.t.Helper()
	return w.run(w.send(thread, text).Run, mailroom.StatusCompleted)
}

// entries waits for n entries of a kind in a thread, and decodes them.
func entries[T any](w *realFixture, thread, kind string, n int) []T {
	w.t.Helper()
	return until(w, kind, func(r store.Reader) (bodies []T, ok bool, err error) {
		found, err := r.Entries(store.EntryQuery{Thread: thread, Kinds: []string{kind}})
		if err != nil || len(found) < n {
			return nil, false, err
		}
		bodies = make([]T, len(found))
		for i, e := range found {
			err = errors.Join(err, json.Unmarshal(e.Body, &bodies[i]))
		}
		return bodies, true, err
	})
}

// delta waits until the live text of a thread contains these words.
func (w *realFixture) delta(s *bus.Subscription, words string) {
	w.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for text := ""; !strings.Contains(text, words); {
		select {
		case n := <-s.C:
			if n.Delta != nil {
				text += n.Delta.Text
			}
		case <-late.C:
			w.t.Fatalf("timeout waiting for live text %q, got %q", words, text)
		}
	}
}

// alone waits until no process of the fixture is left.
func (w *realFixture) alone() {
	w.t.Helper()
	late := time.Now().Add(patience)
	for {
		left := w.processes()
		if len(left) == 0 {
			return
		}
		if time.Now().After(late) {
			w.t.Fatalf("processes %v still run", left)
		}
		<-time.After(10 * time.Millisecond) // the end of a foreign process cannot be awaited
	}
}

// processes returns the fixture's processes, identified by a variable.
func (w *realFixture) processes() (pids []string) {
	w.t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	w.must(err)
	for _, file := range found {
		env, err := os.ReadFile(file) // an error: the process has just exited
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), "HOME="+w.folder) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return living(w.t, pids)
}

// dump logs the content of the store.
func (w *realFixture) dump() {
	st, err := sqlite.Open(context.Background(), filepath.Join(w.folder, "mail.db"), sqlite.Options{})
	if err != nil {
		w.t.Log(err)
		return
	}
	w.ended(st.View(context.Background(), func(r store.Reader) error {
		threads, err := r.Threads(store.ThreadQuery{})
		if err != nil {
			return err
		}
		for _, thread := range threads {
			found, err := r.Entries(store.EntryQuery{Thread: thread.ID})
			if err != nil {
				return err
			}
			for _, e := range found {
				w.t.Logf("%s %d %s %s", e.Thread, e.Seq, e.Kind, e.Body)
			}
		}
		return nil
	}))
	w.ended(st.Close())
}
