package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mailroom/client"
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
		c := t.hand(t.target(s), p, 0).client
		id, err := workerOf(ctx, c, w.cmd.Process.Pid)
		if err != nil {
			return err
		}
		t.kills()
		w.kill()
		t.freed(ctx, c, id)
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

// freed waits until nothing is claimed by a worker that was killed, which is for
// a lease and a sweep, and on a slow machine a little longer.
func (t *torture) freed(ctx context.Context, c *client.Client, worker string) {
	begin, held := time.Now(), 0
	for time.Since(begin) < 6*time.Second && ctx.Err() == nil {
		pause(ctx, 50*time.Millisecond)
		page, err := c.Runs(ctx, client.ListQuery{Q: "status:running", Limit: 500})
		if err != nil {
			continue // the next answer tells
		}
		held = 0
		for _, r := range page.Items {
			if r.Worker != nil && *r.Worker == worker {
				held++
			}
		}
		if held == 0 {
			return
		}
	}
	if ctx.Err() == nil {
		t.violation("", "%d runs are still claimed by a worker that was killed %s ago", held, time.Since(begin))
	}
}

// workerOf is the id of the worker that lives in a process.
func workerOf(ctx context.Context, c *client.Client, pid int) (string, error) {
	workers, err := c.Workers(ctx)
	for _, w := range workers {
		if w.PID == pid {
			return w.ID, nil
		}
	}
	return "", err // it has no lease at the moment
}
