package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// supervised are the signals that a supervisor may leave ignored or blocked.
var supervised = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE,
	syscall.SIGCHLD, syscall.SIGUSR1}

func init() {
	switch os.Getenv("PROC_TEST_ROLE") {
	case "supervisor":
		runSupervisor()
	case "supervised":
		runSupervised()
	}
}

// TestAChildStartsWithoutIgnoredAndBlockedSignals has a parent that was started with both.
func TestAChildStartsWithoutIgnoredAndBlockedSignals(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		got := signalsUnder(t, string(kind))
		if maskOf(t, got, "SigBlk") != 0 || maskOf(t, got, "SigIgn") != 0 {
			t.Errorf("the child has\n%s", got)
		}
	})
	// Without a shim the mask stays, which the Go runtime passes on.
	if got := signalsUnder(t, ""); maskOf(t, got, "SigIgn") != 0 {
		t.Errorf("without isolation the child has\n%s", got)
	}
}

// maskOf returns a mask of a status of a process. It leaves out real-time signals: the C library uses the first two
// itself, and the program that started this test may ignore them.
func maskOf(t *testing.T, status, name string) uint64 {
	t.Helper()
	mask, err := readMask(status, name)
	if err != nil {
		t.Fatal(err)
	}
	return mask
}

func readMask(status, name string) (uint64, error) {
	_, rest, found := strings.Cut(status, name+":\t")
	digits, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || !found {
		return 0, fmt.Errorf("no mask %s in %q", name, status)
	}
	return mask & (1<<31 - 1), nil
}

// signalsUnder returns the signal masks of a child whose parent a supervisor started.
func signalsUnder(t *testing.T, kind string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PROC_TEST_ROLE=supervisor", "PROC_TEST_KIND=" + kind, quickExit}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// runSupervisor is a helper program. It ignores and blocks signals and becomes the parent of the child.
func runSupervisor() {
	signal.Ignore(supervised...)
	var set unix.Sigset_t
	for _, s := range supervised {
		set.Val[0] |= 1 << (uint(s.(syscall.Signal)) - 1)
	}
	err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
	if err == nil {
		env := []string{"PROC_TEST_ROLE=supervised", "PROC_TEST_KIND=" + os.Getenv("PROC_TEST_KIND"), quickExit}
		err = syscall.Exec("/proc/self/exe", os.Args[:1], env)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// runSupervised is a helper program. Its children print their masks; the first one shows that a start has no lasting
// effect.
func runSupervised() {
	spec := Spec{Command: []string{"/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"}, Env: []string{quickExit}}
	if kind := os.Getenv("PROC_TEST_KIND"); kind != "" {
		spec.Isolation = &Isolation{Kind: Kind(kind)}
	}
	var got output
	for range 2 {
		got = output{}
		c, err := Start(spec)
		if err == nil {
			_, err = c.Run(context.Background(), "", got.emit)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	own, err := os.ReadFile("/proc/self/status")
	if mask, errMask := readMask(string(own), "SigIgn"); errMask != nil || mask != 3 {
		err = errors.Join(err, errMask, fmt.Errorf("this process no longer ignores HUP and INT alone: %s", own))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(got.text.String())
	os.Exit(0)
}

func TestUnreadDataOfAPipeIsSeen(t *testing.T) {
	r, w := pipe(t)
	want := func(want bool, what string) {
		t.Helper()
		if got := unread(r); got != want {
			t.Errorf("%s: unread data %t, want %t", what, got, want)
		}
	}
	want(false, "an empty pipe")
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	want(true, "after a write")
	if _, err := r.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	want(false, "after a read")
	closeAll([]*os.File{w})
	want(false, "at its end")
	closeAll([]*os.File{r})
	want(false, "closed")
}
