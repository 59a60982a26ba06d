package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// Restart is the result of starting a server with a backlog.
type Restart struct {
	Queued int       `json:"queued"`
	Clean  Restarted `json:"clean"` // after a clean shutdown
	// Killed are starts after the previous server was killed (SIGKILL) at work, each with
	// the remaining queue.
	Killed []Restarted `json:"killed"`
}

// Restarted is one start, measured from before the process is created.
type Restarted struct {
	Listening float64 `json:"listening_ms"` // until it reports that it listens
	Served    float64 `json:"served_ms"`    // until a reader received the end of a run
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
	if err := os.WriteFile(filepath.Join(dir, "mailroom.toml"), []byte(b.Config), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
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
	s, err := b.startChild(ctx, nil, true, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	talk := make(chan struct{})
	defer func() {
		err = errors.Join(err, s.kill())
		<-talk
	}()
	line, err := s.waitLine("listening on ")
	if err != nil {
		close(talk)
		return r, fmt.Errorf("start a server: %w", err)
	}
	r.Listening = milliseconds(int64(time.Since(began)))
	url, _, _ := strings.Cut(strings.TrimPrefix(line, "listening on "), ",")
	go func() {
		defer close(talk)
		// Discards output until the process is killed, which is also the error.
		_, _ = io.Copy(io.Discard, s.lines)
	}()
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return r, fmt.Errorf("read the token: %w", err)
	}
	at, err := waitRunEnd(ctx, client.New(url, strings.TrimSpace(string(token))))
	if err != nil {
		return r, fmt.Errorf("wait for a run: %w", err)
	}
	r.Served = milliseconds(int64(at.Sub(began)))
	b.Progress("  listening after %.0f ms, a run has ended after %.0f ms", r.Listening, r.Served)
	return r, nil
}

// waitRunEnd waits for the end of a run. It keeps submitting runs, in case all queued runs ended
// before it connected.
func waitRunEnd(ctx context.Context, c *client.Client) (at time.Time, err error) {
	seen := errors.New("run ended")
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			if err := sleepUntil(ctx, time.Now().Add(probeEvery)); err != nil {
				return nil // the other goroutine has the result
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
