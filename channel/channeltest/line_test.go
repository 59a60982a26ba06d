package channeltest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/internal/machinetest"
)

// linePlatform speaks a line protocol over TCP and has no history. It answers "HELLO" with "OK"
// or "DENIED" and "PING" with "PONG". It sends users' messages as "MSG id text" and receives
// replies as "SAY text".
type linePlatform struct {
	t    *testing.T
	addr string

	// Owned by mu.
	mu      sync.Mutex
	ln      net.Listener // nil while down
	conns   map[net.Conn]bool
	replies []string
	hung    bool
	deny    bool
}

func newLinePlatform(t *testing.T) *linePlatform {
	p := &linePlatform{t: t, addr: machinetest.Reserve(t), conns: map[net.Conn]bool{}}
	p.mend()
	t.Cleanup(p.down)
	return p
}

// cut closes open connections. The caller holds mu.
func (p *linePlatform) cut() {
	for c := range p.conns {
		_ = c.Close() // the peer sees the close
		delete(p.conns, c)
	}
}

func (p *linePlatform) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ln != nil {
		_ = p.ln.Close() // an error has no effect on the test
		p.ln = nil
	}
	p.cut()
}

func (p *linePlatform) set(hung, deny bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hung || deny {
		p.cut()
	}
	p.hung, p.deny = hung, deny
}

func (p *linePlatform) mend() {
	p.set(false, false)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ln != nil {
		return
	}
	ln := machinetest.Listen(p.t, p.addr)
	p.ln = ln
	go func() { // ends with the listener
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns[c] = true
			p.mu.Unlock()
			go p.serve(c)
		}
	}()
}

// serve answers until the connection is closed.
func (p *linePlatform) serve(c net.Conn) {
	for lines := bufio.NewScanner(c); lines.Scan(); {
		p.mu.Lock()
		word, rest, _ := strings.Cut(lines.Text(), " ")
		answer := map[string]string{"HELLO": "OK", "PING": "PONG"}[word]
		if p.deny {
			answer = "DENIED"
		}
		if word == "SAY" && !p.hung {
			p.replies = append(p.replies, rest)
		}
		if answer != "" && !p.hung {
			_, _ = fmt.Fprintln(c, answer) // the peer may be gone
		}
		p.mu.Unlock()
	}
}

func (p *linePlatform) post(id, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_, _ = fmt.Fprintln(c, "MSG", id, text) // as above
	}
}

func (p *linePlatform) sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.replies)
}

// lineAdapter is the adapter of a linePlatform.
type lineAdapter struct {
	host  *channel.Host
	conn  net.Conn
	lines *bufio.Scanner
}

func (p *linePlatform) connect(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends a blocked read
	defer stop()
	lines := bufio.NewScanner(conn)
	if _, err = fmt.Fprintln(conn, "HELLO"); err == nil && !lines.Scan() {
		err = errors.Join(errors.New("no answer to HELLO"), lines.Err())
	}
	if err == nil && lines.Text() == "DENIED" {
		err = channel.Fatal(errors.New("login denied"))
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &lineAdapter{l, conn, lines}, nil
}

// Receive implements [channel.Adapter]. It ignores ctx: Close makes it return.
func (c *lineAdapter) Receive(ctx context.Context) error {
	for c.lines.Scan() {
		switch words := strings.SplitN(c.lines.Text(), " ", 3); words[0] {
		case "PONG":
			c.host.Received()
		case "DENIED":
			return channel.Fatal(errors.New("login denied"))
		case "MSG":
			position, err := json.Marshal(words[1])
			if err != nil {
				return err
			}
			_, err = c.host.Submit(ctx, channel.Inbound{
				Chat: []string{"all"}, Key: words[1], Parts: mailroom.Text(words[2]), Agent: channeltest.Agent,
				Cursor: channel.Cursor{Identity: "line", Position: position},
			})
			if err != nil {
				return err
			}
		}
	}
	return errors.Join(errors.New("connection closed"), c.lines.Err())
}

// Maintain implements [channel.Adapter].
func (c *lineAdapter) Maintain(ctx context.Context) error {
	beat := time.NewTicker(5 * time.Millisecond)
	defer beat.Stop()
	for {
		if _, err := fmt.Fprintln(c.conn, "PING"); err != nil {
			return err
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Deliver implements [channel.Adapter].
func (c *lineAdapter) Deliver(_ context.Context, d channel.Delivery, _ mailroom.Session) error {
	if _, err := fmt.Fprintln(c.conn, "SAY", d.Text); err != nil {
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: err}
	}
	c.host.Sent()
	return nil
}

// Close implements [channel.Adapter].
func (c *lineAdapter) Close() error { return c.conn.Close() }

func TestALineAdapterConforms(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
		p := newLinePlatform(t)
		return &channeltest.Platform{
			Kind:    "line",
			Connect: p.connect,
			Post:    p.post,
			Sent:    p.sent,
			Reconnect: channel.ReconnectPolicy{InitialDelay: 5 * time.Millisecond, MaxDelay: 20 * time.Millisecond,
				IdleTimeout: time.Second, ConnectTimeout: time.Second},
			Outages: channeltest.Outages{
				Down:    p.down,
				Restore: p.mend,
				Hang:    func() { p.set(true, false) },
			},
			Credentials: channeltest.Credentials{
				Reject: func() { p.set(false, true) },
			},
		}
	})
}
