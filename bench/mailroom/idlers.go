package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

// idlersReady is printed when all workers wait for a run.
const idlersReady = "waiting"

// runIdlers registers n workers, which wait for runs that never come, until stdin ends. Their leases outlive them.
func runIdlers(ctx context.Context, stdin io.Reader, w io.Writer, url, token string, n int) error {
	ctx, stop := untilInputEnds(ctx, stdin)
	defer stop()
	c := client.New(url, token, client.WithHTTPClient(&http.Client{
		Transport: &http.Transport{MaxIdleConns: n, MaxIdleConnsPerHost: n},
	}))
	written := make(chan struct{}, n)
	group, asking := errgroup.WithContext(ctx)
	connecting := make(chan struct{}, 16) // limited, because the backlog of a listener is short
	for range n {
		group.Go(func() error {
			connecting <- struct{}{}
			err := awaitRun(asking, c, func() { written <- struct{}{}; <-connecting })
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	group.Go(func() error {
		for range n {
			select {
			case <-written:
			case <-asking.Done():
				return nil // the group returns the error that ended the context
			}
		}
		_, err := fmt.Fprintln(w, idlersReady)
		return err
	})
	return group.Wait()
}

// awaitRun registers a worker and polls for a run until ctx ends. It calls polling when the poll was sent.
func awaitRun(ctx context.Context, c *client.Client, polling func()) error {
	agents, err := json.Marshal([]string{workerAgent})
	if err != nil {
		return err
	}
	none := 0
	known, err := c.Work.Claim(ctx, api.ClaimRequest{Agents: agents, Max: &none, Host: "bench"}, 0)
	if err != nil {
		polling()
		return err
	}
	sent := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		if !sent {
			sent = true
			polling()
		}
	}})
	one := 1
	_, err = c.Work.Claim(traced, api.ClaimRequest{Worker: known.Worker, Max: &one, Round: 1}, time.Minute)
	return err
}

// workerMemory connects workers that wait for runs of an agent.
func (b *bench) workerMemory(ctx context.Context, dir string) (f Footprint, err error) {
	n, few := b.scaled(memoryReaders, 10), b.scaled(memoryFew, 10)/10
	h, err := newFixture(ctx, openFile, dir, b.AgentVersion, func(*mailroom.Run) {})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	s, err := h.serve(n + few)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	first, err := b.startIdlers(ctx, s, few)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, first.finish()) }()
	before := measureMemory()
	idlers, err := b.startIdlers(ctx, s, n)
	if err != nil {
		return f, err
	}
	f = before.footprint(n)
	return f, idlers.finish()
}

// startIdlers starts n idle workers and returns when they wait.
func (b *bench) startIdlers(ctx context.Context, s *httpServer, n int) (*child, error) {
	c, err := b.startChild(ctx, []string{"MAILROOM_URL=" + s.url, "MAILROOM_TOKEN=" + s.token}, false, "idlers",
		strconv.Itoa(n))
	if err != nil {
		return nil, err
	}
	if _, err := c.waitLine(idlersReady); err != nil {
		return nil, fmt.Errorf("connect %d workers: %w", n, errors.Join(err, c.kill()))
	}
	return c, nil
}
