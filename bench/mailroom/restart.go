package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// Restart is the result of starting a server with a backlog.
type Restart struct {
	Queued int       `json:"queued"`
	Clean  Restarted `json:"clean"` // restart after a clean shutdown
	// Killed has the starts after the previous server was killed (SIGKILL) while it ran work, each with the remaining
	// queue.
	Killed []Restarted `json:"killed"`
}

// Restarted has the times of one start, measured from before the process is created.
type Restarted struct {
	Listening float64 `json:"listening_ms"` // time until the server reports that it listens
	Served    float64 `json:"served_ms"`    // time until a reader received the end of a run
}

const (
	restartQueued = 100_000
	restartKills  = 3
	probeEvery    = 200 * time.Millisecond
)

// restart queues runs and starts a real server on them.
func (b *bench) restart(ctx context.Context, dir string) error {
	r := &Restart{Queued: b.scaled(restartQueued, 200)}
	b.Progress("restart: queueing %d runs", r.Queued)
	d, err := b.newDriver(ctx, dir, load{backlog: r.Queued})
	if err != nil {
		return err
	}
	if err := errors.Join(d.fill(ctx, r.Queued), d.fixture.close()); err != nil {
		return err
	}
	if r.Clean, err = b.restartOnce(ctx, dir); err != nil {
		return err
	}
	for range b.scaled(restartKills, 1) {
		killed, err := b.restartOnce(ctx, dir)
		if err != nil {
			return err
		}
		r.Killed = append(r.Killed, killed)
	}
	b.result.Restart = r
	return nil
}

// restartOnce starts a server, waits for the end of a run, and kills it.
func (b *bench) restartOnce(ctx context.Context, dir string) (r Restarted, err error) {
	began := time.Now()
	err = b.withServer(ctx, dir, "", func(s *served) error {
		r.Listening = milliseconds(int64(s.listening.Sub(began)))
		at, err := waitRunEnd(ctx, client.New(s.url, s.token))
		if err != nil {
			return fmt.Errorf("wait for a run: %w", err)
		}
		r.Served = milliseconds(int64(at.Sub(began)))
		b.Progress("  listening after %.0f ms, a run has ended after %.0f ms", r.Listening, r.Served)
		return nil
	})
	return r, err
}

// waitRunEnd waits for the end of a run. It keeps submitting runs, in case all queued runs ended
// before it connected.
func waitRunEnd(ctx context.Context, c *client.Client) (at time.Time, err error) {
	seen := errors.New("run ended")
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			if err := sleepUntil(ctx, time.Now().Add(probeEvery)); err != nil {
				return nil // the other goroutine returns the result
			}
			if _, err := c.Submit(ctx, api.Submit{Text: "ping"}); err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
	group.Go(func() error {
		for e, err := range c.Stream(ctx, "") {
			if err != nil {
				return err
			}
			if e.Entry != nil && e.Entry.Kind == entry.KindCompleted {
				at = time.Now()
				return seen
			}
		}
		return nil
	})
	if err := group.Wait(); !errors.Is(err, seen) {
		return at, err
	}
	return at, nil
}
