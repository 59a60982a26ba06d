package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mailroom/client"
)

// withWorker runs a second worker in its own process over the same ledger, beside the server's
// worker, and kills one of them.
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
		// A process that was stopped resumes as a worker whose claims were freed and given to others. Its agents
		// continue to write under the lost claims.
		t.faults.addKill()
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
		c := t.newUser(t.target(s), p, 0).client
		id, err := workerOf(ctx, c, w.cmd.Process.Pid)
		if err != nil {
			return err
		}
		t.faults.addKill()
		w.kill()
		t.waitFreed(ctx, c, id)
	case twoAtOnce:
		t.faults.addKill()
		s.kill()
		pause(ctx, 300*time.Millisecond)
	}
	if ctx.Err() == nil && s.hasExited() && p.kind != twoAtOnce {
		return fmt.Errorf("server exited unexpectedly: %s", s.last(20))
	}
	t.counts.kill(p.kind, "")
	t.faults.addKill()
	s.kill()
	w.kill()
	return nil
}

// waitFreed waits until no run is claimed by a killed worker. That takes a lease and a sweep,
// longer on a slow machine.
func (t *torture) waitFreed(ctx context.Context, c *client.Client, worker string) {
	begin, held := time.Now(), 0
	for time.Since(begin) < 6*time.Second && ctx.Err() == nil {
		pause(ctx, 50*time.Millisecond)
		page, err := c.Runs(ctx, client.ListQuery{Q: "status:running", Limit: 500})
		if err != nil {
			continue // retries: a later answer lists the runs
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

// workerOf returns the id of the worker in a process.
func workerOf(ctx context.Context, c *client.Client, pid int) (string, error) {
	workers, err := c.Workers(ctx)
	for _, w := range workers {
		if w.PID == pid {
			return w.ID, nil
		}
	}
	return "", err // the worker has no lease at the moment
}
