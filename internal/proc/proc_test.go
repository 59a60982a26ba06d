package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

const mark = "PROC_TEST_MARK"

// TestMain also runs the helper programs: some tests execute the test binary again.
func TestMain(m *testing.M) {
	switch os.Getenv("PROC_TEST_ROLE") {
	case "parent":
		runParent()
	case "ignore-signals":
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("ready")
		<-time.After(time.Hour) // the runtime would report an empty select as a deadlock
	default:
		goleak.VerifyTestMain(m)
	}
}

// longLimits are limits that a test reaches only when it fails.
var longLimits = Limits{Stderr: 64, Interrupt: time.Minute, Terminate: time.Minute}

// quickExit is a variable without which each program with the race detector, also a shim, takes a second to exit.
const quickExit = "GORACE=atexit_sleep_ms=0"

// shell returns a child that runs a script, with the test's name as its mark.
func shell(t *testing.T, script string, limits Limits) Spec {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	value := t.Name()
	return Spec{
		Command: []string{"/bin/sh", path},
		Env:     []string{"PATH=" + os.Getenv("PATH"), mark + "=" + value, quickExit},
		Belongs: marked(value),
		Limits:  limits,
	}
}

func marked(value string) Belongs {
	return func(lookup func(string) (string, bool)) bool {
		v, ok := lookup(mark)
		return ok && v == value
	}
}

func start(t *testing.T, spec Spec) *Child {
	t.Helper()
	c, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// output collects stdout. onOutput, if not nil, gets all of it so far after each chunk.
type output struct {
	text     strings.Builder
	onOutput func(all string)
}

func (s *output) emit(_ context.Context, b []byte) error {
	s.text.Write(b)
	if s.onOutput != nil {
		s.onOutput(s.text.String())
	}
	return nil
}

var errStop = errors.New("stop requested")

// cancelOn returns a context that is canceled once the output contains word.
func (s *output) cancelOn(t *testing.T, word string) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	s.onOutput = func(all string) {
		if strings.Contains(all, word) {
			cancel(errStop)
		}
	}
	return ctx
}

func TestInputIsWrittenAndOutputRead(t *testing.T) {
	var got output
	want := strings.Repeat("a line of text\n", 100_000)
	exit, err := start(t, shell(t, "cat", longLimits)).Run(t.Context(), want, got.emit)
	if err != nil || !exit.Success() {
		t.Fatalf("ended with %v, %v; want success", exit, err)
	}
	if got.text.String() != want {
		t.Errorf("got %d bytes back, want the %d that went in", got.text.Len(), len(want))
	}
}

func TestExitReportsHowTheChildEnded(t *testing.T) {
	cases := []struct {
		script string
		want   Exit
		text   string
	}{
		{"echo why >&2; exit 3", Exit{Code: 3, Stderr: []byte("why\n")}, "exit status 3"},
		{"kill -9 $$", Exit{Code: -1, Signal: "killed"}, "signal: killed"},
		{"true", Exit{}, "exit status 0"},
		{"i=0; while [ $i -lt 1000 ]; do echo $i >&2; i=$((i+1)); done",
			Exit{Stderr: []byte("984\n985\n986\n987\n988\n989\n990\n991\n992\n993\n994\n995\n996\n997\n998\n999\n")},
			"exit status 0"},
	}
	for _, c := range cases {
		got, err := start(t, shell(t, c.script, longLimits)).Run(t.Context(), "", discard)
		if err != nil {
			t.Errorf("%s: %v", c.script, err)
		}
		if got.Duration <= 0 {
			t.Errorf("%s: took %v", c.script, got.Duration)
		}
		got.Duration = 0
		if len(got.Stderr) == 0 {
			got.Stderr = nil
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.script, diff)
		}
		if got.String() != c.text {
			t.Errorf("%s: %q, want %q", c.script, got, c.text)
		}
	}
}

func TestAChildNeedNotReadItsInput(t *testing.T) {
	input := strings.Repeat("x", 1<<20) // more than a pipe holds
	for _, script := range []string{"exit 0", "exec 0<&-; echo done"} {
		exit, err := start(t, shell(t, script, longLimits)).Run(t.Context(), input, discard)
		if err != nil || !exit.Success() {
			t.Errorf("%s: ended with %v, %v; want success", script, exit, err)
		}
	}
}

func TestLimits(t *testing.T) {
	long := time.Minute
	cases := []struct {
		name   string
		script string
		limits Limits
		want   error
		output string
	}{
		{"no output", "sleep 1000", Limits{Start: 20 * time.Millisecond, Idle: long}, ErrStart, ""},
		{"silence from the start", "sleep 1000", Limits{Idle: 20 * time.Millisecond}, ErrIdle, ""},
		{"silence after output", "echo one; sleep 1000", Limits{Start: long, Idle: 20 * time.Millisecond}, ErrIdle, "one\n"},
		{"silence after stderr", "echo one >&2; sleep 1000", Limits{Start: long, Idle: 20 * time.Millisecond}, ErrIdle, ""},
		{"silence after stdout was closed", "echo one; exec >&-; sleep 1000", Limits{Start: long, Idle: 20 * time.Millisecond}, ErrIdle, "one\n"},
		{"total", "while :; do sleep 0.01; echo; done | tr -d '\\n'", Limits{Total: 50 * time.Millisecond}, ErrTotal, ""},
		{"output", "yes", Limits{Output: 5}, ErrOutput, "y\ny\ny"},
		{"output that just fits", "echo 1234", Limits{Output: 5}, nil, "1234\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.limits.Interrupt, c.limits.Terminate = long, long
			var got output
			_, err := start(t, shell(t, c.script, c.limits)).Run(t.Context(), "", got.emit)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if got.text.String() != c.output {
				t.Errorf("output %q, want %q", got.text.String(), c.output)
			}
		})
	}
}

func TestStopSendsIntThenTermThenKill(t *testing.T) {
	// Each child ignores the signals before the one that ends it.
	grace := 20 * time.Millisecond
	cases := []struct {
		name   string
		script string
		limits Limits
		want   string
		output string
	}{
		{"INT", "trap 'kill $!; echo bye; exit 7' INT; echo ready; sleep 1000 & wait",
			Limits{Interrupt: time.Minute, Terminate: time.Minute}, "exit status 7", "ready\nbye\n"},
		{"TERM", "trap '' INT; trap 'echo bye; exit 8' TERM; echo ready; sleep 1000 & wait",
			Limits{Interrupt: grace, Terminate: time.Minute}, "exit status 8", "ready\nbye\n"},
		{"KILL", "trap '' INT TERM; echo ready; while :; do sleep 1000; done",
			Limits{Interrupt: grace, Terminate: grace}, "signal: killed", "ready\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got output
			ctx := got.cancelOn(t, "ready")
			exit, err := start(t, shell(t, c.script, c.limits)).Run(ctx, "", got.emit)
			if !errors.Is(err, errStop) {
				t.Errorf("error %v, want the cause %v", err, errStop)
			}
			if exit.String() != c.want {
				t.Errorf("ended by %v, want %v", exit, c.want)
			}
			if got.text.String() != c.output {
				t.Errorf("output %q, want %q", got.text.String(), c.output)
			}
		})
	}
}

func TestAnUrgentReasonKillsAtOnce(t *testing.T) {
	var got output
	ctx := got.cancelOn(t, "ready")
	spec := shell(t, "trap '' INT TERM; echo ready; while :; do sleep 1000; done", longLimits)
	spec.Urgent = func(why error) bool { return errors.Is(why, errStop) }
	exit, err := start(t, spec).Run(ctx, "", got.emit)
	if !errors.Is(err, errStop) || exit.Signal != "killed" {
		t.Errorf("ended with %v, %v; want it killed", exit, err)
	}
}

func TestAnErrorOfEmitStopsTheChild(t *testing.T) {
	full := errors.New("receiver closed")
	_, err := start(t, shell(t, "echo one; sleep 1000", longLimits)).Run(t.Context(), "",
		func(context.Context, []byte) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
	// Also when the child has exited before its output is read.
	c := start(t, shell(t, "echo one", longLimits))
	<-c.exited
	if _, err := c.Run(t.Context(), "", func(context.Context, []byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("error after its exit %v, want %v", err, full)
	}
}

func TestOutputIsReadToItsEndAfterTheExit(t *testing.T) {
	c := start(t, shell(t, "head -c 65536 /dev/zero", longLimits)) // a pipe full
	total := 0
	_, err := c.Run(t.Context(), "", func(_ context.Context, b []byte) error {
		<-c.exited
		total += len(b)
		return nil
	})
	if err != nil || total != 65536 {
		t.Errorf("got %d bytes, %v; want 65536", total, err)
	}
}

func TestKillEndsAChildWithoutInput(t *testing.T) {
	witness := filepath.Join(t.TempDir(), "witness")
	c := start(t, shell(t, "cat >/dev/null; : >"+witness, longLimits))
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(witness); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the child read an end of input and went on: %v", err)
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		spec Spec
		want error
	}{
		{"no such program", Spec{Command: []string{"no-such-program-anywhere"}}, exec.ErrNotFound},
		{"no such path", Spec{Command: []string{filepath.Join(dir, "none")}}, fs.ErrNotExist},
		{"not executable", Spec{Command: []string{plain}}, fs.ErrPermission},
		{"no such folder", Spec{Command: []string{"/bin/sh"}, Dir: filepath.Join(dir, "none")}, fs.ErrNotExist},
		{"folder is a file", Spec{Command: []string{"/bin/sh"}, Dir: plain}, syscall.ENOTDIR},
	}
	for _, c := range cases {
		if _, err := Start(c.spec); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

func TestTheEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("PROC_TEST_CANARY", "canary")
	for _, env := range [][]string{nil, {"GIVEN=1"}} {
		var got output
		spec := Spec{Command: []string{"/usr/bin/env"}, Env: env}
		if _, err := start(t, spec).Run(t.Context(), "", got.emit); err != nil {
			t.Fatal(err)
		}
		if want := strings.Join(append(env, ""), "\n"); got.text.String() != want {
			t.Errorf("environment %q, want %q", got.text.String(), want)
		}
	}
}

func TestDirIsTheWorkingDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var got output
	spec := Spec{Command: []string{"/bin/pwd"}, Dir: dir}
	if _, err := start(t, spec).Run(t.Context(), "", got.emit); err != nil {
		t.Fatal(err)
	}
	if want := dir + "\n"; got.text.String() != want {
		t.Errorf("runs in %q, want %q", got.text.String(), want)
	}
}

// Pdeathsig kills a child when the thread that forked it ends: that must not be the
// caller's thread.
func TestAChildOutlivesTheThreadThatStartedIt(t *testing.T) {
	var c *Child
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		c = start(t, shell(t, "cat", longLimits))
	}()
	<-done
	for range 20 { // a thread ends some time after its goroutine: end several to be sure
		ended := make(chan struct{})
		go func() { runtime.LockOSThread(); close(ended) }()
		<-ended
	}
	var got output
	exit, err := c.Run(t.Context(), "still here", got.emit)
	if err != nil || !exit.Success() || got.text.String() != "still here" {
		t.Errorf("output %q, ended with %v, %v; want it alive", got.text.String(), exit, err)
	}
}

// runParent is a helper program. It starts a child that inherits fd 3, prints
// "ready" when the child does, and never waits for it.
func runParent() {
	c, err := Start(Spec{Command: []string{os.Args[0]}, Env: []string{"PROC_TEST_ROLE=ignore-signals"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	line := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(c.stdout, line); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(string(line))
	select {}
}

func TestTailKeepsTheEnd(t *testing.T) {
	for _, pieces := range [][]string{
		{"abcdefgh"}, {"abcde", "fgh"}, {"a", "b", "c", "d", "e", "f", "g", "h"}, {"abcdef", "", "gh"},
	} {
		k := tail{max: 3}
		for _, p := range pieces {
			k.add([]byte(p))
		}
		if got := string(k.bytes()); got != "fgh" {
			t.Errorf("%q: kept %q, want fgh", pieces, got)
		}
	}
	short := tail{max: 3}
	short.add([]byte("a"))
	if got := string(short.bytes()); got != "a" {
		t.Errorf("kept %q, want a", got)
	}
}
