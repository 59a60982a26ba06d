package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// hold opens count connections, calls talk on each, and closes them after a while. A connection
// that the server refuses is no error.
func (t *target) hold(
	ctx context.Context, count int, while time.Duration, talk func(ctx context.Context, c net.Conn, i int),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	opened := &errgroup.Group{}
	opened.SetLimit(64) // handshakes at once
	for i := range count {
		opened.Go(func() error {
			c, err := t.dial(ctx)
			if err != nil {
				return nil // refused
			}
			wg.Go(func() {
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				defer stop()
				defer func() { _ = c.Close() }()
				talk(ctx, c, i)
				<-ctx.Done()
			})
			return nil
		})
	}
	err := opened.Wait()
	select {
	case <-time.After(while):
	case <-ctx.Done():
	}
	cancel()
	wg.Wait()
	return err
}

// write writes s to a connection. It returns false if the server has closed the connection.
func write(c net.Conn, s string) bool {
	_, err := io.WriteString(c, s)
	return err == nil
}

// trickle writes pieces with a pause after each.
func trickle(ctx context.Context, c net.Conn, pieces []string, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for _, piece := range pieces {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !write(c, piece) {
			return
		}
	}
}

// connections returns the attacks that hold connections.
func connections() []attack {
	const head = "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
	body := strings.Repeat(" ", 4*mebibyte-64)
	return []attack{
		{"150 bodies without their last byte", func(ctx context.Context, t *target) error {
			return t.hold(ctx, 150, 3*time.Second, func(_ context.Context, c net.Conn, _ int) {
				if write(c, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)+1)) {
					write(c, body)
				}
			})
		}},
		{"150 such bodies for a hook", func(ctx context.Context, t *target) error {
			return t.hold(ctx, 150, 3*time.Second, func(_ context.Context, c net.Conn, _ int) {
				if write(c, strings.Replace(head, "/v1/messages", "/v1/hooks/nothing", 1)+fmt.Sprintf("Content-Length: %d\r\n\r\n",
					len(body)+1)) {
					write(c, body)
				}
			})
		}},
		{"150 such bodies with a token", func(ctx context.Context, t *target) error {
			return t.hold(ctx, 150, 3*time.Second, func(_ context.Context, c net.Conn, _ int) {
				if write(c, head+fmt.Sprintf("Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", t.token, len(body)+1)) {
					write(c, body)
				}
			})
		}},
		{"2,000 connections that say nothing", func(ctx context.Context, t *target) error {
			return t.hold(ctx, 2000, time.Second, func(context.Context, net.Conn, int) {})
		}},
		{"2,000 connections that were used once", func(ctx context.Context, t *target) error {
			return t.hold(ctx, 2000, time.Second, func(_ context.Context, c net.Conn, _ int) {
				write(c, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
			})
		}},
		{"500 slow headers", func(ctx context.Context, t *target) error {
			return t.hold(ctx, 500, 4*time.Second, func(ctx context.Context, c net.Conn, _ int) {
				trickle(ctx, c, strings.Split(head, ""), 100*time.Millisecond)
			})
		}},
		{"500 slow bodies", func(ctx context.Context, t *target) error {
			return t.hold(ctx, 500, 4*time.Second, func(ctx context.Context, c net.Conn, _ int) {
				if write(c, head+fmt.Sprintf("Authorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n", t.token)) {
					trickle(ctx, c, strings.Split(strings.Repeat("1\r\n \r\n|", 60), "|"), 100*time.Millisecond)
				}
			})
		}},
		{"200 that expect a 100 and go silent", func(ctx context.Context, t *target) error {
			return t.hold(ctx, 200, 3*time.Second, func(_ context.Context, c net.Conn, _ int) {
				write(c, head+fmt.Sprintf("Authorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Length: 4000000\r\n\r\n",
					t.token))
			})
		}},
		{"500 plain hellos on a port with TLS", func(ctx context.Context, t *target) error {
			return t.hold(ctx, 500, time.Second, func(_ context.Context, c net.Conn, _ int) {
				write(c, strings.Repeat("\x16\x03\x01\x02", 4000))
			})
		}},
	}
}
