package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

// outside is a server as its clients see it: each producer submits a run over HTTP, waits for its end, and begins
// again. The server is a process of its own, and so is the worker of its agent, if the server does not run the agent
// itself.
type outside struct {
	client    *client.Client
	agent     string // agent to submit to; "": the default agent
	timed     bool   // the agent answers with the time of its start, in ns since 1970
	producers int
	threads   int
	server    int // process id
	worker    int // process id; 0: none
	pace      schedule

	next, submitted, ended atomic.Int64
	first                  chan struct{} // closed when the first run has ended
	recording              atomic.Bool
	recorded               recorded
}

// newOutside returns the clients of a server.
func (b *bench) newOutside(s *served, agent string) *outside {
	// Each producer keeps one connection.
	transport := &http.Transport{MaxIdleConns: b.Producers, MaxIdleConnsPerHost: b.Producers}
	return &outside{
		client: client.New(s.url, s.token, client.WithHTTPClient(&http.Client{Transport: transport})),
		agent:  agent, producers: b.Producers, threads: b.result.Settings.Threads, server: s.pid,
		first: make(chan struct{}),
	}
}

// measure measures a load at a rate; 0 is full load. All runs that were submitted have completed when it returns.
func (o *outside) measure(ctx context.Context, b *bench, perSecond int) (l *Load, err error) {
	o.pace.rate, o.pace.began = perSecond, time.Now()
	group, ctx := errgroup.WithContext(ctx)
	producing, stop := context.WithCancelCause(ctx)
	for range o.producers {
		group.Go(func() error { return o.produce(ctx, producing) })
	}
	group.Go(func() error {
		defer stop(errMeasured)
		l, err = b.record(ctx, o, perSecond)
		return err
	})
	return l, group.Wait()
}

// produce handles one run after another until producing ends. A run that has begun ends with ctx only.
func (o *outside) produce(ctx, producing context.Context) error {
	for {
		err := o.pace.wait(producing)
		if errors.Is(err, errMeasured) {
			return nil
		}
		if err == nil {
			err = o.run(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// run submits a run and waits for its end.
func (o *outside) run(ctx context.Context) error {
	n := o.next.Add(1)
	called := time.Now()
	out, err := o.client.Submit(ctx, api.Submit{
		Agent: o.agent, Thread: "bench-" + strconv.FormatInt(n%int64(o.threads), 10),
		Text: "What is the answer to question " + strconv.FormatInt(n, 10) + "?",
	})
	if err != nil {
		return fmt.Errorf("submit run %d: %w", n, err)
	}
	o.submitted.Add(1)
	accepted := time.Now()
	r, err := o.client.WaitRun(ctx, out.Run, 0)
	if err != nil {
		return fmt.Errorf("wait for run %d: %w", n, err)
	}
	if r.Status != mailroom.StatusCompleted || r.Reply == nil {
		return fmt.Errorf("run %d is %s, without a reply or with an error: %v", n, r.Status, r.Error)
	}
	if o.recording.Load() {
		o.recorded.Submits.add(accepted.Sub(called))
		o.recorded.Dones.add(time.Since(called))
		if o.timed {
			ns, err := strconv.ParseInt(*r.Reply, 10, 64)
			if err != nil {
				return fmt.Errorf("run %d has the reply %q, not a time", n, *r.Reply)
			}
			o.recorded.Starts.add(max(0, time.Unix(0, ns).Sub(called)))
		}
	}
	if o.ended.Add(1) == 1 {
		close(o.first)
	}
	return nil
}

func (o *outside) started(ctx context.Context) error {
	select {
	case <-o.first:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *outside) setRecording(_ context.Context, on bool) error {
	o.recording.Store(on)
	return nil
}

func (o *outside) wait(ctx context.Context, at time.Time) error { return sleepUntil(ctx, at) }

func (o *outside) snapshot(context.Context) (snapshot, error) {
	return snapshot{At: time.Now(), Submitted: o.submitted.Load(), Ended: o.ended.Load(), CPU: processTime(o.server),
		Worker: processTime(o.worker)}, nil
}

func (o *outside) times(context.Context) (*recorded, error) { return &o.recorded, nil }

// http measures complete runs of a server whose clients submit and wait over HTTP.
func (b *bench) http(ctx context.Context, dir string) error {
	b.Progress("http: %d connections that submit a run and wait for its end, %s after %s of warm-up", b.Producers, b.For,
		b.warmup())
	return b.withServer(ctx, dir, "", func(s *served) (err error) {
		b.result.HTTP, err = b.newOutside(s, "").measure(ctx, b, 0)
		return err
	})
}
