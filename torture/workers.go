package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// withWorker runs a second worker beside the server's own, in a process of its
// own over the same ledger, and loses one of them.
func (t *torture) withWorker(ctx context.Context, s *process, p plan) error {
	env := []string{"MAILROOM_TORTURE=", "MAILROOM_TORTURE_LIMIT=", "MAILROOM_TORTURE_FILE=" + t.effectsFile()}
	w, err := launch(t.tagged, env, "working as", "torture-worker", "--data", t.data())
	if err != nil {
		return err
	}
	defer w.kill()
	if err := w.await(ctx); err != nil {
		return err
	}
	pause(ctx, p.load)
	switch p.kind {
	case frozen:
		// It wakes as a worker that others have buried, whose agents go on
		// writing under claims that were given to somebody else.
		t.kills()
		if err := freeze(w.cmd.Process); err != nil {
			return err
		}
		pause(ctx, 2200*time.Millisecond)
		if err := thaw(w.cmd.Process); err != nil {
			return err
		}
		pause(ctx, 500*time.Millisecond)
		t.counts.zombies.Add(int64(strings.Count(w.last(200), "ended without its claim")))
	case worker:
		t.kills()
		w.kill()
		pause(ctx, 1500*time.Millisecond) // a lease, and a sweep
	case twoAtOnce:
		t.kills()
		s.kill()
		pause(ctx, 300*time.Millisecond)
	}
	if ctx.Err() == nil && s.gone() && p.kind != twoAtOnce {
		return fmt.Errorf("the server ended by itself: %s", s.last(20))
	}
	t.counts.kill(p.kind, "")
	t.kills()
	s.kill()
	w.kill()
	return nil
}
