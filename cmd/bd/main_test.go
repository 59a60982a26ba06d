package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mailroom/internal/machinetest"
	"mailroom/internal/version"
	"mailroom/issues/bd"
)

func TestMain(m *testing.M) {
	testscript.Main(machinetest.Main{M: m, Packages: []string{"."}}, map[string]func(){"bd": main})
}

// TestSessions runs each file of testdata as a session of a user.
func TestSessions(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Setup: func(env *testscript.Env) error {
		env.Setenv("PATH", machinetest.Path())
		env.Setenv("HOME", env.WorkDir)
		env.Setenv("BD_ACTOR", "ann")
		env.Setenv("TZ", "UTC")
		return nil
	}})
}

// place is a folder with a tracker, on which bd runs in this process or in others.
type place struct {
	t   *testing.T
	dir string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t, t.TempDir()}
	p.must("ann", "init", "--prefix", "x")
	return p
}

func (p *place) command(actor string, args ...string) *exec.Cmd {
	program, err := machinetest.Program("bd")
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "BD_ACTOR="+actor)
	return cmd
}

// run runs bd in this process, which the race detector watches.
func (p *place) run(actor string, args ...string) (string, string, error) {
	var out, stderr bytes.Buffer
	m := bd.Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &stderr, Dir: p.dir, Version: version.Read().Version,
		Env: func(name string) string {
			if name == "BD_ACTOR" {
				return actor
			}
			return os.Getenv(name)
		}}
	if code := m.Run(p.t.Context(), args); code != 0 {
		return out.String(), stderr.String(), exitError(code)
	}
	return out.String(), stderr.String(), nil
}

// exitError is the exit code of bd, if it is not 0.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// runProcess runs bd in a process of its own, as agents do.
func (p *place) runProcess(actor string, args ...string) (string, string, error) {
	var out, stderr bytes.Buffer
	cmd := p.command(actor, args...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	return out.String(), stderr.String(), err
}

func (p *place) must(actor string, args ...string) string {
	p.t.Helper()
	out, stderr, err := p.run(actor, args...)
	if err != nil {
		p.t.Fatalf("bd %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return out
}

// lines returns the issues of the file, by id. Each line must be complete.
func (p *place) lines() map[string]map[string]any {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.dir, ".beads", "issues.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	if len(raw) > 0 && raw[len(raw)-1] != '\n' {
		p.t.Fatalf("the last line of the file is incomplete: %q", raw[max(0, len(raw)-80):])
	}
	found := map[string]map[string]any{}
	for line := range bytes.Lines(raw) {
		var it map[string]any
		if err := json.Unmarshal(line, &it); err != nil {
			p.t.Fatalf("%q: %v", line, err)
		}
		found[it["id"].(string)] = it
	}
	return found
}

func TestParallelChangesAreAllKept(t *testing.T) {
	p := newPlace(t)
	const n = 25
	all := func(f func(i int) []string) {
		t.Helper()
		var group sync.WaitGroup
		for i := range n {
			group.Go(func() {
				if _, stderr, err := p.runProcess("ann", f(i)...); err != nil {
					t.Errorf("%v: %s", err, stderr)
				}
			})
		}
		group.Wait()
	}
	all(func(int) []string { return []string{"create", "all the same", "--json"} })
	if got := len(p.lines()); got != n {
		t.Fatalf("%d issues of equal titles were kept, want %d", got, n)
	}
	var ids []string
	for id := range p.lines() {
		ids = append(ids, id)
	}
	all(func(i int) []string { return []string{"comments", "add", ids[0], fmt.Sprint("remark ", i)} })
	all(func(i int) []string { return []string{"update", ids[i], "--notes", fmt.Sprint("note ", i)} })
	found := p.lines()
	if got := len(found[ids[0]]["comments"].([]any)); got != n {
		t.Errorf("%d of %d comments are in the file", got, n)
	}
	for i, id := range ids {
		if got, want := found[id]["notes"], fmt.Sprint("note ", i); got != want {
			t.Errorf("%s has notes %v, want %s", id, got, want)
		}
	}
}
