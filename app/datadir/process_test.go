//go:build unix

package datadir

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestMain runs the tests or, as a child process, holds a folder until its standard input ends.
func TestMain(m *testing.M) {
	if dir := os.Getenv("MAILROOM_TEST_HOLD"); dir != "" {
		os.Exit(holdUntilEOF(Dir(dir), os.Getenv("MAILROOM_TEST_SERVE") != ""))
	}
	os.Exit(m.Run())
}

func holdUntilEOF(f Dir, serve bool) int {
	ctx := context.Background()
	h, err := f.Acquire(ctx)
	if err == nil && serve {
		err = h.MarkServer(ctx)
	}
	fmt.Println("held", err)
	if err != nil {
		return 1
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return 1
	}
	if err := h.Release(); err != nil {
		return 1
	}
	return 0
}

// holder is a child process that holds a folder.
type holder struct {
	cmd *exec.Cmd
	in  io.Closer
}

func (h *holder) pid() int { return h.cmd.Process.Pid }

// start starts a process and waits until it holds the folder.
func start(t *testing.T, f Dir, serve string) *holder {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MAILROOM_TEST_HOLD="+string(f), "MAILROOM_TEST_SERVE="+serve)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held <nil>\n" {
		t.Fatalf("output of the holder: %q, %v", line, err)
	}
	return &holder{cmd: cmd, in: in}
}

// find returns the server process of the folder, or nil.
func find(t *testing.T, f Dir) *Process {
	t.Helper()
	p, err := f.Process()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheServerOfAFolderIsTheProcessThatHoldsItsLock(t *testing.T) {
	f := Dir(t.TempDir())
	if p := find(t, f); p != nil {
		t.Errorf("server of an empty folder: %d, want none", p.PID)
	}
	h := start(t, f, "yes")
	p := find(t, f)
	if p == nil || p.PID != h.pid() {
		t.Fatalf("Process() = %+v, want process %d", p, h.pid())
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := h.cmd.Wait(); err == nil {
		t.Error("the server exited with 0, want it ended by the signal")
	}
	if ended, err := p.Ended(); !ended || err != nil {
		t.Errorf("Ended() after the exit = %v, %v; want true", ended, err)
	}
	if p := find(t, f); p != nil {
		t.Errorf("server of the folder after its exit: %d, want none", p.PID)
	}
}

func TestAServerThatHasEndedGetsNoSignalAndNeitherDoesItsSuccessor(t *testing.T) {
	f := Dir(t.TempDir())
	first := start(t, f, "yes")
	p := find(t, f)
	if err := first.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := first.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	next := start(t, f, "yes")
	if err := p.Signal(os.Kill); err != nil {
		t.Error(err)
	}
	if err := next.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := next.cmd.Wait(); err != nil {
		t.Errorf("the next server: %v, want no signal", err)
	}
}

func TestACommandThatHoldsAFolderIsNoServer(t *testing.T) {
	f := Dir(t.TempDir())
	h := start(t, f, "")
	if p := find(t, f); p != nil {
		t.Errorf("server of a folder that a command holds: %d, want none", p.PID)
	}
	if err := h.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
