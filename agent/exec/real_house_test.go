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
	"mailroom/store/sqlite"
	"mailroom/store/storetest"
)

// patience bounds waits of tests that hang only when they fail.
const patience = time.Minute

// eachProgram runs f with the real codex and the real claude.
func eachProgram(t *testing.T, f func(t *testing.T, name string)) {
	for _, p := range program.All() {
		t.Run(p.Name, func(t *testing.T) { f(t, p.Name) })
	}
}

// installed is the path of a program that make test-real-agents has installed.
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

// model plays a model for the test.
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

// house is a data folder with one server after the other, whose only agent is a
// real program that asks the model of the test.
type house struct {
	t       *testing.T
	name    string // of the program
	folder  string // all files of the test
	options exec.ProgramOptions

	store  mailroom.Store
	ledger *ledger.Ledger
	bus    *bus.Bus
	stop   func()
}

// open opens a house and its first server. edit may change the options.
func open(t *testing.T, name, url string, edit ...func(*exec.ProgramOptions)) *house {
	t.Helper()
	h := &house{t: t, name: name, folder: t.TempDir(), stop: func() {}}
	env := fakemodel.Environment(url, h.folder)
	h.must(fakemodel.ConfigureCodex(env["CODEX_HOME"], url))
	h.must(os.Mkdir(h.work(""), 0o700))
	h.options = exec.ProgramOptions{Profile: program.Find(name), Program: installed(t, name), Dir: h.work("")}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		h.options.Env = append(h.options.Env, key+"="+env[key])
	}
	for _, f := range edit {
		f(&h.options)
	}
	h.serve()
	t.Cleanup(func() {
		h.stop()
		if t.Failed() {
			h.tell()
		}
	})
	return h
}

// work is a file in the folder in which the program works.
func (h *house) work(file string) string { return filepath.Join(h.folder, "work", file) }

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// serve starts a server; h.stop ends it in order.
func (h *house) serve() {
	h.t.Helper()
	a, err := exec.NewProgram(h.options)
	h.must(err)
	store, err := sqlite.Open(h.t.Context(), filepath.Join(h.folder, "mail.db"), sqlite.Options{})
	h.must(err)
	b := bus.New()
	l := ledger.New(store, ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: thread, Entries: entries})
	}})
	e := engine.New(l, b, engine.Options{
		Agents: map[string]engine.Agent{h.name: {Agent: a}}, Local: true, ShutdownGrace: time.Millisecond,
		Log: slog.New(slog.NewTextHandler(h.t.Output(), nil)),
	})
	h.store, h.ledger, h.bus = store, l, b
	engineCtx, quit := context.WithCancel(context.Background())
	ledgerCtx, end := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { h.ended(l.Run(ledgerCtx)) })
	h.must(l.EndLocal(h.t.Context()))
	both.Go(func() {
		defer end()
		h.ended(e.Run(engineCtx))
	})
	h.stop = sync.OnceFunc(func() {
		quit()
		both.Wait()
		found, err := storetest.Check(context.Background(), store)
		h.ended(err)
		for _, bad := range found {
			h.t.Error(bad)
		}
		h.ended(store.Close())
	})
}

func (h *house) restart() {
	h.t.Helper()
	h.stop()
	h.serve()
}

func (h *house) ended(err error) {
	if err != nil {
		h.t.Error(err)
	}
}

func (h *house) send(thread, text string, edit ...func(*mailroom.Submit)) mailroom.Submitted {
	h.t.Helper()
	in := mailroom.Submit{Thread: thread, Agent: h.name, SetAgent: true, Messages: []mailroom.Draft{{Parts: mailroom.Text(text)}}}
	for _, f := range edit {
		f(&in)
	}
	out, err := h.ledger.Submit(h.t.Context(), in)
	h.must(err)
	return out
}

// until waits for what a reader sees of the store, which it is asked anew
// whenever a thread has changed.
func until[T any](h *house, what string, f func(mailroom.Reader) (T, bool, error)) T {
	h.t.Helper()
	notices := h.bus.Subscribe("", 1000)
	defer notices.Close()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		var found T
		var ok bool
		h.must(h.store.View(h.t.Context(), func(r mailroom.Reader) (err error) {
			found, ok, err = f(r)
			return err
		}))
		if ok {
			return found
		}
		select {
		case <-notices.C:
		case <-late.C:
			h.t.Fatalf("no %s", what)
		}
	}
}

// run waits until a run is in one of these states.
func (h *house) run(id string, states ...mailroom.Status) *mailroom.Run {
	h.t.Helper()
	return until(h, "run that is "+string(states[0]), func(r mailroom.Reader) (*mailroom.Run, bool, error) {
		runs, err := r.Runs(mailroom.RunQuery{IDs: []string{id}})
		if err != nil || len(runs) == 0 {
			return nil, false, err
		}
		if runs[0].Status == mailroom.Failed && !slices.Contains(states, mailroom.Failed) {
			h.t.Fatalf("the run failed: %+v", runs[0].Error)
		}
		return runs[0], slices.Contains(states, runs[0].Status), nil
	})
}

// ask sends a text and returns the run when it is done.
func (h *house) ask(thread, text string) *mailroom.Run {
	h.t.Helper()
	return h.run(h.send(thread, text).Run, mailroom.Completed)
}

// entries waits for n entries of a kind in a thread, and decodes them.
func entries[T any](h *house, thread, kind string, n int) []T {
	h.t.Helper()
	return until(h, kind, func(r mailroom.Reader) (bodies []T, ok bool, err error) {
		found, err := r.Entries(mailroom.EntryQuery{Thread: thread, Kinds: []string{kind}})
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

// delta waits until live text of a thread has these words.
func (h *house) delta(s *bus.Subscription, words string) {
	h.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for text := ""; !strings.Contains(text, words); {
		select {
		case n := <-s.C:
			if n.Delta != nil {
				text += n.Delta.Text
			}
		case <-late.C:
			h.t.Fatalf("of %q only %q came", words, text)
		}
	}
}

// alone waits until no process of the house is left.
func (h *house) alone() {
	h.t.Helper()
	late := time.Now().Add(patience)
	for {
		left := h.processes()
		if len(left) == 0 {
			return
		}
		if time.Now().After(late) {
			h.t.Fatalf("processes %v are left", left)
		}
		<-time.After(10 * time.Millisecond) // nothing tells when a process ends that is not ours
	}
}

// processes are the living ones of the house, by a variable that they all have.
func (h *house) processes() (pids []string) {
	h.t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	h.must(err)
	for _, file := range found {
		env, err := os.ReadFile(file) // an error: it has just ended
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), "HOME="+h.folder) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return living(h.t, pids)
}

// tell logs all that is in the store.
func (h *house) tell() {
	store, err := sqlite.Open(context.Background(), filepath.Join(h.folder, "mail.db"), sqlite.Options{})
	if err != nil {
		h.t.Log(err)
		return
	}
	h.ended(store.View(context.Background(), func(r mailroom.Reader) error {
		threads, err := r.Threads(mailroom.ThreadQuery{})
		if err != nil {
			return err
		}
		for _, thread := range threads {
			found, err := r.Entries(mailroom.EntryQuery{Thread: thread.ID})
			if err != nil {
				return err
			}
			for _, e := range found {
				h.t.Logf("%s %d %s %s", e.Thread, e.Seq, e.Kind, e.Body)
			}
		}
		return nil
	}))
	h.ended(store.Close())
}
