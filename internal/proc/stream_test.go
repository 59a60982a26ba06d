package proc

import (
	"context"
	"errors"
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
	if exit, why := start(t, shell(t, "exit 0", longLimits)).RunWithInput(t.Context(), in, discard); why != nil || !exit.Success() {
		t.Errorf("ended with %v, %v", exit, why)
	}
	in.Write("after the exit")

	in = NewInput("")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	_, why := start(t, shell(t, "echo ready; exec sleep 1000", longLimits)).RunWithInput(ctx, in, func(context.Context, []byte) error {
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
	limits.Output = 100
	if _, why := start(t, shell(t, "exec yes", limits)).Run(t.Context(), "", inactive); !errors.Is(why, ErrOutput) {
		t.Errorf("too much output: stop reason %v, want %v", why, ErrOutput)
	}
}
