package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mailroom/app/command"
	"mailroom/app/datadir"
	"mailroom/internal/machinetest"
)

// Exit codes of commands.
const (
	exitDone   = command.ExitDone
	exitFailed = command.ExitFailed
	exitUsage  = command.ExitUsage
)

// fixture is a data folder with a configuration and a named pipe "gate".
type fixture struct {
	t      *testing.T
	dir    datadir.Dir
	server *process // set by serve
}

func newFixture(t *testing.T, settings string) *fixture {
	t.Helper()
	h := &fixture{t: t, dir: datadir.Dir(t.TempDir())}
	if strings.Contains(settings, `kind = "exec"`) {
		settings = "isolation = \"none\"\n" + settings // the commands use files of the data folder
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

// run runs a command in this process.
func (h *fixture) run(ctx context.Context, stdout io.Writer, args ...string) (code int, stderr string) {
	var output bytes.Buffer
	m := Main{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: &output, Env: h.env}
	code = m.Run(ctx, args)
	return code, output.String()
}

// Exit codes.
const (
	exitWaiting     = command.ExitWaiting
	exitServer      = command.ExitServer
	exitRestart     = command.ExitRestart
	exitConfig      = command.ExitConfig
	exitInterrupted = command.ExitInterrupted
)

// process starts a server in its own process. Its port is reserved until the test ends: what talks to it after a kill
// meets no server of another test, and --listen with its address starts it again there.
func (h *fixture) process(p *process, args ...string) {
	h.t.Helper()
	args = append([]string{"--listen", machinetest.Reserve(h.t)}, args...)
	if err := p.start(string(h.dir), append(os.Environ(), "MAILROOM_DATA="+string(h.dir)), args...); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		p.kill()
		if h.t.Failed() {
			h.t.Logf("output of the server:\n%s", p.output.all())
		}
	})
}

// waitWriter is a Stdout that calls first before it returns from the first write.
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

// stuckConfig has an agent that repeats its input and then hangs in its first attempt.
const stuckConfig = `default_agent = "stuck"
[agents.stuck]
kind = "exec"
command = ["sh", "-c", "cat; test $MAILROOM_ATTEMPT != 1 || cat gate"]
`

// gatedConfig has an agent that repeats its input and then what the test writes into the gate.
const gatedConfig = `default_agent = "gated"
[agents.gated]
kind = "exec"
command = ["sh", "-c", "cat; cat gate"]
`

func TestServeRunsUntilItsContextEnds(t *testing.T) {
	h := newFixture(t, "")
	ctx, stop := context.WithCancel(t.Context())
	output := &transcript{log: io.Discard, grown: make(chan struct{}, 1)}
	m := Main{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: output, Env: h.env}
	code := make(chan int, 1)
	go func() { code <- m.Run(ctx, []string{"serve", "--listen", "127.0.0.1:0"}) }()
	for output.line("listening on http://127.0.0.1:") == "" {
		select {
		case <-output.grown:
		case got := <-code:
			t.Fatalf("serve ended with %d: %s", got, output.text.String())
		}
	}
	var out bytes.Buffer
	if got, stderr := h.run(t.Context(), &out, "send", "hello"); got != exitDone || out.String() != "hello\n" {
		t.Errorf("send: exit code %d, %q, %s", got, out.String(), stderr)
	}
	stop()
	if got := <-code; got != exitDone {
		t.Errorf("serve: exit code %d, want %d: %s", got, exitDone, output.text.String())
	}
	for _, name := range []string{"server.json", "crash.txt"} {
		if _, err := os.Stat(filepath.Join(string(h.dir), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s after the server stopped: %v, want no such file", name, err)
		}
	}
}

// A program that the server starts outside of any isolation, such as git, inherits its environment.
func TestSecretsLeaveTheEnvironmentOfTheServer(t *testing.T) {
	h := newFixture(t, `[targets.hook]
kind = "webhook"
url = "https://alerts.example.org"
token_env = "TARGET_SECRET"
[channels.hooks]
kind = "webhook"
agent = "echo"
url = "https://hooks.example.org"
token_env = "CHANNEL_SECRET"
`)
	env := map[string]string{"TARGET_SECRET": "hush", "CHANNEL_SECRET": "hush", "MAILROOM_TOKEN": "hush", "KEPT": "kept",
		"MAILROOM_DATA": string(h.dir)}
	ctx, stop := context.WithCancel(t.Context())
	output := &transcript{log: io.Discard, grown: make(chan struct{}, 1)}
	var mu sync.Mutex
	m := Main{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: output,
		Env:      func(name string) string { mu.Lock(); defer mu.Unlock(); return env[name] },
		Unsetenv: func(name string) error { mu.Lock(); defer mu.Unlock(); delete(env, name); return nil },
	}
	code := make(chan int, 1)
	go func() { code <- m.Run(ctx, []string{"serve", "--listen", "127.0.0.1:0"}) }()
	for output.line("listening on http://127.0.0.1:") == "" {
		select {
		case <-output.grown:
		case got := <-code:
			t.Fatalf("serve ended with %d: %s", got, output.text.String())
		}
	}
	stop()
	if got := <-code; got != exitDone {
		t.Errorf("serve: exit code %d: %s", got, output.text.String())
	}
	if want := map[string]string{"KEPT": "kept", "MAILROOM_DATA": string(h.dir)}; !maps.Equal(env, want) {
		t.Errorf("the environment of the server has %q, want %q", slices.Sorted(maps.Keys(env)),
			slices.Sorted(maps.Keys(want)))
	}
}

// A newcomer finds the manual where the first lines of serve and the help say, without a token.
func TestTheFirstLinesNameTheManual(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "")
	h.serve()
	line, err := h.server.until("the manual is at ")
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := strings.Cut(line, "the manual is at ")
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(strings.TrimSpace(at))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK ||
		!bytes.Contains(body, []byte("durable mailbox")) {
		t.Errorf("%s answers %d, %v", at, resp.StatusCode, err)
	}
	var help bytes.Buffer
	if code, stderr := h.run(t.Context(), &help, "help"); code != exitDone || !strings.Contains(help.String(),
		"shows the manual of this version at /docs/") {
		t.Errorf("help: exit code %d: %s%s", code, help.String(), stderr)
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
		t.Errorf("send: exit code %d, want %d and the attach command: %s", code, exitInterrupted, stderr)
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

func TestSendContinuesAfterAKillOfItsServer(t *testing.T) {
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
		t.Errorf("output %q, want the text of the first attempt, then the reply of the second one", out.text.String())
	}
	if !strings.Contains(stderr, "lost its worker") {
		t.Errorf("stderr does not report the lost attempt: %s", stderr)
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
