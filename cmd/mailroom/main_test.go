package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mailroom/internal/console"
	"mailroom/internal/datadir"
)

// Exit codes of commands.
const (
	exitDone   = console.ExitDone
	exitFailed = console.ExitFailed
	exitUsage  = console.ExitUsage
)

// fixture is a data folder of a test, with a configuration.
type fixture struct {
	t      *testing.T
	dir    datadir.Dir
	server *process // of serve; nil before
}

func newFixture(t *testing.T, settings string) *fixture {
	t.Helper()
	h := &fixture{t: t, dir: datadir.Dir(t.TempDir())}
	if strings.Contains(settings, `kind = "exec"`) {
		settings = "isolation = \"none\"\n" + settings // they wait for the pipe in the folder
	}
	if err := os.WriteFile(h.dir.Config(), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(string(h.dir), "gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *fixture) env(name string) string {
	if name == "MAILROOM_DATA" {
		return string(h.dir)
	}
	return ""
}

// run runs a command of the program in this process.
func (h *fixture) run(ctx context.Context, stdout io.Writer, args ...string) (code int, stderr string) {
	var talk bytes.Buffer
	m := Main{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: &talk, Env: h.env}
	code = m.Run(ctx, args)
	return code, talk.String()
}

// Exit codes.
const (
	exitWaiting     = console.ExitWaiting
	exitServer      = console.ExitServer
	exitRestart     = console.ExitRestart
	exitConfig      = console.ExitConfig
	exitInterrupted = console.ExitInterrupted
)

// process starts a server in a process of its own.
func (h *fixture) process(p *process, args ...string) {
	h.t.Helper()
	if err := p.start(string(h.dir), append(os.Environ(), "MAILROOM_DATA="+string(h.dir)), args...); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		p.kill()
		if h.t.Failed() {
			h.t.Logf("the server said:\n%s", p.talk.all())
		}
	})
}

// waitWriter is a Stdout that does something when the first text is printed.
type waitWriter struct {
	text  strings.Builder
	first func()
}

func (w *waitWriter) Write(b []byte) (int, error) {
	w.text.Write(b)
	if w.first != nil {
		w.first()
		w.first = nil
	}
	return len(b), nil
}

// stuckConfig says what it is told; its first attempt then hangs.
const stuckConfig = `default_agent = "stuck"
[agents.stuck]
kind = "exec"
command = ["sh", "-c", "cat; test $MAILROOM_ATTEMPT != 1 || cat gate"]
`

// gatedConfig has an agent that repeats its input and ends once the test writes into the gate.
const gatedConfig = `default_agent = "gated"
[agents.gated]
kind = "exec"
command = ["sh", "-c", "cat; cat gate"]
`

func TestServeRunsUntilItsContextEnds(t *testing.T) {
	h := newFixture(t, "")
	ctx, stop := context.WithCancel(t.Context())
	talk := &transcript{log: io.Discard, grown: make(chan struct{}, 1)}
	m := Main{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: talk, Env: h.env}
	code := make(chan int, 1)
	go func() { code <- m.Run(ctx, []string{"serve", "--listen", "127.0.0.1:0"}) }()
	for talk.line("listening on http://127.0.0.1:") == "" {
		select {
		case <-talk.grown:
		case got := <-code:
			t.Fatalf("serve ended with %d: %s", got, talk.text.String())
		}
	}
	var out bytes.Buffer
	if got, stderr := h.run(t.Context(), &out, "send", "hello"); got != exitDone || out.String() != "hello\n" {
		t.Errorf("send: exit code %d, %q, %s", got, out.String(), stderr)
	}
	stop()
	if got := <-code; got != exitDone {
		t.Errorf("serve: exit code %d, want %d: %s", got, exitDone, talk.text.String())
	}
	for _, name := range []string{"server.json", "crash.txt"} {
		if _, err := os.Stat(filepath.Join(string(h.dir), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s after the server stopped: %v, want no such file", name, err)
		}
	}
}

func TestCtrlCDetachesAndCancelsNothing(t *testing.T) {
	h := newFixture(t, gatedConfig)
	h.process(&process{})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &waitWriter{first: interrupt}
	code, stderr := h.run(ctx, out, "send", "--thread", "t", "one two")
	if code != exitInterrupted || !strings.Contains(stderr, "\n  mailroom attach t\n") {
		t.Errorf("send: exit code %d, want %d, and how to attach again: %s", code, exitInterrupted, stderr)
	}
	if got := out.text.String(); got != "one two\n" {
		t.Errorf("printed %q, want the reply so far, and its line ended", got)
	}
	again := &waitWriter{first: func() {
		if err := openGate(filepath.Join(string(h.dir), "gate"), ", done"); err != nil {
			t.Error(err)
		}
	}}
	code, stderr = h.run(t.Context(), again, "attach", "t")
	if want := "one two, done\n"; code != exitDone || again.text.String() != want {
		t.Errorf("attach: exit code %d, %q, want %d, %q: %s", code, again.text.String(), exitDone, want, stderr)
	}
}

func TestSendGoesOnWhenItsServerIsKilled(t *testing.T) {
	h := newFixture(t, stuckConfig)
	p := &process{}
	h.process(p)
	out := &waitWriter{first: func() {
		p.kill()
		h.process(p, "--listen", strings.TrimPrefix(p.url, "http://"))
	}}
	const text = "one two"
	code, stderr := h.run(t.Context(), out, "send", "--thread", "t", text)
	if code != exitDone {
		t.Errorf("exit code %d, want %d: %s", code, exitDone, stderr)
	}
	if want := text + "\n" + text + "\n"; out.text.String() != want {
		t.Errorf("printed %q, want what the first attempt wrote, then the reply of the second, once", out.text.String())
	}
	if !strings.Contains(stderr, "lost its worker") {
		t.Errorf("nothing is said about the lost attempt: %s", stderr)
	}
}

func TestSecondSignalEndsTheServerAtOnce(t *testing.T) {
	h := newFixture(t, "[agents.echo]\npace = \"30s\"\n")
	p := &process{}
	h.process(p)
	if code, stderr := h.run(t.Context(), io.Discard, "send", "--thread", "t", "--detach", "a b"); code != exitDone {
		t.Fatalf("send: exit code %d: %s", code, stderr)
	}
	if err := awaitEntry(h.dir, "t", "delta"); err != nil {
		t.Fatal(err)
	}
	for _, until := range []func() error{
		func() error { _, err := p.until("shutting down"); return err },
		func() error { <-p.exited; return nil },
	} {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := until(); err != nil {
			t.Fatal(err)
		}
	}
	exit, ok := errors.AsType[*exec.ExitError](p.exit)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the server ended with %v, want the signal", p.exit)
	}
}
