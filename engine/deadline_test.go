package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"mailroom"
	"mailroom/engine"
	"mailroom/thread"
)

// extending returns the options of an engine with a deadline of two minutes, whose agent asks once, at the first
// minute, for more time, and then works until its context ends. ended gets the cause and the time of that.
func extending(h *fixture, extend time.Duration, ended chan<- ending) engine.Options {
	o := serving(func(ctx context.Context, s mailroom.Session) error {
		if s.Run().Attempt > 1 {
			return nil
		}
		begin := time.Now()
		<-time.After(time.Minute)
		h.expect(s.Append(ctx, mailroom.Step{Name: "half", Extend: extend}))
		<-ctx.Done()
		ended <- ending{context.Cause(ctx), time.Since(begin)}
		return ctx.Err()
	})
	o.Deadline = 2 * time.Minute
	return o
}

type ending struct {
	cause error
	after time.Duration
}

func TestAStepGivesItsAttemptMoreTimeUpToTheBound(t *testing.T) {
	for _, c := range []struct {
		name         string
		extend, want time.Duration
	}{
		{"less than is left", 30 * time.Second, 2 * time.Minute},
		{"more than is left", 4 * time.Minute, 5 * time.Minute},
		{"more than the bound", time.Hour, 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			everywhere(t, func(h *fixture) {
				h.deadline, h.longest = 2*time.Minute, 10*time.Minute
				ended := make(chan ending, 1)
				h.start(extending(h, c.extend, ended))
				out := h.send("t", "hello")
				got := <-ended
				if late := got.after - c.want; got.cause != mailroom.ErrDeadline || late < 0 || late > time.Second {
					t.Errorf("it ended by %v after %v, want a deadline after %v", got.cause, got.after, c.want)
				}
				h.wait(time.Minute)
				if r := h.status(out.Run, mailroom.StatusCompleted); r.Failures != 1 || r.Attempt != 2 {
					t.Errorf("got %d failures, %d attempts, want 1 and 2", r.Failures, r.Attempt)
				}
			})
		})
	}
}

// An agent that does not return is abandoned a grace after the end that its step has moved, not after the first one.
func TestAStuckAgentIsEndedAfterTheTimeThatItAskedFor(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.deadline, h.longest = time.Minute, 10*time.Minute
		release := make(chan struct{})
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Attempt == 1 {
				h.expect(s.Append(ctx, mailroom.Step{Name: "begun", Extend: 3 * time.Minute}))
				<-release
			}
			return nil
		})
		o.Deadline = time.Minute
		h.start(o)
		out := h.send("t", "hello")
		h.wait(3*time.Minute + 8*time.Second)
		h.status(out.Run, mailroom.StatusRunning)
		h.wait(5 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Failures != 1 || r.Attempt != 2 {
			t.Errorf("got %d failures, %d attempts, want 1 and 2", r.Failures, r.Attempt)
		}
		close(release)
	})
}

func TestMoreTimeDelaysNeitherAStopNorTheRunsOwnDeadline(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*thread.Submit)
		stop func(h *fixture, run string)
	}{
		{"stop", func(*thread.Submit) {}, func(h *fixture, run string) {
			_, err := h.ledger.Cancel(context.Background(), run, "user")
			h.must(err)
		}},
		{"own deadline", func(in *thread.Submit) { in.Timeout = 3 * time.Minute }, func(*fixture, string) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			everywhere(t, func(h *fixture) {
				h.deadline, h.longest = 2*time.Minute, time.Hour
				ended := make(chan ending, 1)
				h.start(extending(h, time.Hour, ended))
				out := h.send("t", "hello", c.edit)
				h.wait(3 * time.Minute)
				c.stop(h, out.Run)
				h.wait(20 * time.Second)
				h.status(out.Run, mailroom.StatusCancelled)
				if got := <-ended; !errors.Is(got.cause, mailroom.ErrStopped) {
					t.Errorf("it ended by %v, want %v", got.cause, mailroom.ErrStopped)
				}
			})
		})
	}
}

func TestAWrongTimeIsRefusedWithTheStep(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			for _, d := range []time.Duration{-1, 366 * 24 * time.Hour} {
				err := s.Append(ctx, mailroom.Step{Name: "x", Extend: d})
				if mailroom.CodeOf(err) != mailroom.CodeInvalid {
					t.Errorf("a step for %v: %v", d, err)
				}
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Step != 0 {
			t.Errorf("it has %d steps", r.Step)
		}
	})
}
