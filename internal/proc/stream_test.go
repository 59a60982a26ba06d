package proc

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestInputCanFollowOutput(t *testing.T) {
	c := start(t, shell(t, `read a; echo "got $a"; read b; echo "got $b"; read c || echo "no more"`, longLimits))
	in := NewInput("one\n")
	var out strings.Builder
	exit, why := c.RunWithInput(t.Context(), in, func(_ context.Context, piece []byte) error {
		out.Write(piece)
		switch out.String() {
		case "got one\n":
			in.Write("two\n")
		case "got one\ngot two\n":
			in.Close()
			in.Write("three\n")
		}
		return nil
	})
	if got, want := out.String(), "got one\ngot two\nno more\n"; got != want || why != nil || !exit.Success() {
		t.Errorf("output %q, ended with %v, %v; want %q", got, exit, why, want)
	}
}

func TestAnUnclosedInputDoesNotDelayTheExit(t *testing.T) {
	in := NewInput(strings.Repeat("x", 1<<20)) // more than a pipe holds
	if exit, why := start(t, shell(t, "exit 0", longLimits)).RunWithInput(t.Context(), in, discard); why != nil ||
		!exit.Success() {
		t.Errorf("ended with %v, %v", exit, why)
	}
	in.Write("after the exit")

	in = NewInput("")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	_, why := start(t, shell(t, "echo ready; exec sleep 1000", longLimits)).RunWithInput(ctx, in,
		func(context.Context, []byte) error {
			cancel(stop)
			return nil
		})
	if !errors.Is(why, stop) {
		t.Errorf("stop reason %v, want %v", why, stop)
	}
}

func TestOnlyActivityResetsTheIdleTimer(t *testing.T) {
	limits := longLimits
	limits.Idle = 60 * time.Millisecond
	noise := "while :; do echo noise; sleep 0.01; done"
	inactive := func(context.Context, []byte) error { return ErrNoActivity }
	if _, why := start(t, shell(t, noise, limits)).Run(t.Context(), "", inactive); !errors.Is(why, ErrIdle) {
		t.Errorf("output without activity: stop reason %v, want %v", why, ErrIdle)
	}
	limits.StdoutOnly = true
	if _, why := start(t, shell(t, "exec >&2; "+noise, limits)).Run(t.Context(), "", discard); !errors.Is(why, ErrIdle) {
		t.Errorf("output on stderr only: stop reason %v, want %v", why, ErrIdle)
	}
	limits.Output, limits.Idle = 100, time.Minute
	if _, why := start(t, shell(t, "exec yes", limits)).Run(t.Context(), "", inactive); !errors.Is(why, ErrOutput) {
		t.Errorf("too much output: stop reason %v, want %v", why, ErrOutput)
	}
}

// TestUnreadOutputDoesNotCountAsSilence has a timer that has fired and output that waits, as after this process was
// starved. Without the rule, select takes either.
func TestUnreadOutputDoesNotCountAsSilence(t *testing.T) {
	seen := errors.New("seen")
	for name, e := range map[string]struct{ emitted, want error }{
		"activity": {seen, seen}, "no activity": {ErrNoActivity, ErrIdle},
	} {
		for range 50 {
			r, w := pipe(t)
			c := &Child{spec: Spec{Limits: Limits{Idle: time.Nanosecond}}, stdout: r, stderr: r, exited: make(chan struct{})}
			s := &stream{out: make(chan []byte, 1), life: make(chan struct{}, 1)}
			s.read.Add(1)
			s.out <- []byte("x")
			if why := c.watch(t.Context(), s, func(context.Context, []byte) error {
				return e.emitted
			}); !errors.Is(why, e.want) {
				t.Fatalf("%s: stopped with %v, want %v", name, why, e.want)
			}
			closeAll([]*os.File{r, w})
		}
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}
