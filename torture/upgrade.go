package main

import (
	"context"
	"fmt"
	"time"
)

// replacement is a step of an upgrade under load: a server stops, and another version starts on its data folder.
type replacement struct {
	server  int
	program string
	killed  bool // end with SIGKILL; otherwise the server stops in order
	// once reports what must have happened under load before the server stops, for at most longestLoad; nil: nothing.
	once func() bool
}

// aroundReplacement is how long the load lasts before and after a replacement.
const aroundReplacement = 300 * time.Millisecond

// longestLoad bounds the load before a replacement. A busy machine needs much longer than aroundReplacement for a few
// runs.
const longestLoad = 5 * time.Minute

// replace replaces one server under load and then checks everything.
func (n *nodes) replace(ctx context.Context, r replacement, p plan) error {
	t := n.torture
	t.counts.cycles.Add(1)
	err := n.underLoad(ctx, p, func(ctx context.Context) error {
		pause(ctx, aroundReplacement)
		// Not after the replacement: the new server has another port, so this load no longer reaches it.
		for began := time.Now(); r.once != nil && !r.once() && ctx.Err() == nil; pause(ctx, aroundReplacement) {
			if time.Since(began) > longestLoad {
				return fmt.Errorf("before server %d is replaced: what %s of load must do has not happened", r.server, longestLoad)
			}
		}
		t.faults.begin()
		defer t.faults.end()
		if r.killed {
			n.servers[r.server].kill()
		} else if err := n.servers[r.server].stop(ctx); err != nil {
			return fmt.Errorf("stop server %d: %w", r.server, err)
		}
		s, err := t.startServer(ctx, t.dataOf(r.server), r.program, configOf(t, r.server), "")
		n.servers[r.server] = s
		if err != nil {
			return fmt.Errorf("start server %d: %w", r.server, err)
		}
		pause(ctx, aroundReplacement)
		return nil
	})
	if err != nil {
		return err
	}
	return t.check(ctx, n.servers[n.after(r.server)])
}
