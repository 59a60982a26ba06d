package bell_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/protocol/bell"
)

const thread = "0198f0a2-1111-7222-8333-944455556666"

// stub writes a program that stands for codex.
func stub(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "codex")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
	return path
}

func TestCodexGetsTheNoticeAsOneArgument(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	program := stub(t, `printf '%s\n' "$CODEX_HOME" "$@" > '`+out+"'\n")
	c := &bell.Codex{Program: program, Home: "/the/home", Thread: thread}
	const said = "1 message waits in \"a'b\""
	must(t, c.Ring(t.Context(), said))
	got, err := os.ReadFile(out)
	must(t, err)
	want := strings.Join([]string{"/the/home", "queue", "--thread", thread, "--message", said}, "\n") + "\n"
	if string(got) != want {
		t.Errorf("codex got %q, want %q", got, want)
	}
}

func TestWhatCodexRefusesIsToldApart(t *testing.T) {
	for name, c := range map[string]struct {
		script string // "": no program
		thread string
		gone   bool
		text   string
	}{
		"no program":    {"", thread, true, "no program /no/such/program"},
		"an old codex":  {"echo \"error: unrecognized subcommand 'queue'\" >&2; exit 2", thread, true, "0.149"},
		"a failure":     {"echo; echo 'database is locked' >&2; exit 1", thread, false, "database is locked"},
		"a long output": {"yes wrong | head -c 1000000; exit 1", thread, false, "wrong"},
		"no thread id":  {"exit 0", "--help", true, "not the id of a thread"},
	} {
		t.Run(name, func(t *testing.T) {
			codex := &bell.Codex{Program: "/no/such/program", Thread: c.thread}
			if c.script != "" {
				codex.Program = stub(t, c.script)
			}
			err := codex.Ring(t.Context(), "1 message waits")
			if err == nil || errors.Is(err, bell.ErrGone) != c.gone || !strings.Contains(err.Error(), c.text) ||
				len(err.Error()) > 300 {
				t.Errorf("got %v; gone: want %v", err, c.gone)
			}
		})
	}
}

func TestTheThreadsOfCodexAreFoundByTheirLocks(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Logf("this system has no /proc: %v", err)
		return
	}
	home := t.TempDir()
	must(t, os.Mkdir(filepath.Join(home, "thread-writer-locks"), 0o700))
	for _, name := range []string{thread + ".lock", "no-uuid.lock"} {
		f, err := os.Create(filepath.Join(home, "thread-writer-locks", name))
		must(t, err)
		defer f.Close() // nothing was written
	}
	program, err := os.Executable()
	must(t, err)
	got := bell.CodexFrom(os.Getpid())
	if len(got) != 1 || *got[0] != (bell.Codex{Program: program, Home: home, Thread: thread}) {
		t.Errorf("threads %+v, want the one whose lock is open", got)
	}
}
