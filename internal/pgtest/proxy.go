package pgtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Fate is what a Proxy does to one trip.
type Fate int

const (
	Pass         Fate = iota
	DropRequest       // the server does not receive it
	HalfRequest       // the server receives all but the last statement
	LoseAnswer        // the server executes it, and the answer is lost
	ServerLeaves      // before the server receives it, the server ends the session
)

// Proxy forwards connections to a cluster. It counts the trips of connections that write, which pin
// their plans, and can cut one of them; later connections pass.
type Proxy struct {
	t        testing.TB
	cluster  *Cluster
	dir      string
	name     string // of the connections
	listener net.Listener
	all      sync.WaitGroup

	mu    sync.Mutex // guards what follows
	open  map[net.Conn]bool
	trips int
	at    int // the trip to cut, counted from 1 at the next one; 0: none
	with  Fate
}

// StartProxy starts a proxy, which ends with the test.
func StartProxy(t testing.TB, c *Cluster) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "proxy") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, cluster: c, dir: dir, name: filepath.Base(dir), open: map[net.Conn]bool{}}
	if p.listener, err = net.Listen("unix", filepath.Join(p.dir, ".s.PGSQL.5432")); err != nil {
		t.Fatal(err)
	}
	p.all.Go(func() {
		for {
			client, err := p.listener.Accept()
			if err != nil {
				return // closed
			}
			p.all.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		p.listener.Close()
		p.mu.Lock()
		for conn := range p.open {
			conn.Close()
		}
		p.mu.Unlock()
		p.all.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

// URL returns a connection string of the cluster through the proxy.
func (p *Proxy) URL() string {
	fields := strings.Fields(p.cluster.URL())
	fields[0] = "host=" + p.dir
	return strings.Join(fields, " ") + " application_name=" + p.name
}

// Trips returns the number of trips so far.
func (p *Proxy) Trips() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}

// Cut makes the n-th trip from now fail, none if n is 0.
func (p *Proxy) Cut(n int, with Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.with = n, with
}

// next counts a trip and returns what happens to it.
func (p *Proxy) next() Fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trips++
	if p.at == 0 {
		return Pass
	}
	if p.at--; p.at > 0 {
		return Pass
	}
	return p.with
}

func (p *Proxy) track(conns ...net.Conn) (untrack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.open[c] = true
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range conns {
			c.Close()
			delete(p.open, c)
		}
	}
}

// serve forwards one connection until one side closes it or a trip is cut. It sends the messages of a
// trip together.
func (p *Proxy) serve(client net.Conn) {
	dir := strings.TrimPrefix(strings.Fields(p.cluster.URL())[0], "host=")
	server, err := net.Dial("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		client.Close()
		return
	}
	defer p.track(client, server)()
	startup, err := message(client, 0)
	if err != nil {
		return
	}
	if _, err := server.Write(startup); err != nil {
		return
	}
	var answers sync.WaitGroup
	defer answers.Wait()
	defer client.Close()
	defer server.Close()
	lost := make(chan struct{}) // closed when answers no longer reach the client
	answers.Go(func() { p.answer(client, server, lost) })
	var trip []byte
	last := 0       // where the trip's last statement begins
	writes := false // the connection pins its plans
	for {
		m, err := message(client, 1)
		if err != nil {
			return
		}
		if m[0] == 'B' || m[0] == 'P' {
			last = len(trip)
		}
		trip = append(trip, m...)
		if m[0] != 'S' && m[0] != 'Q' && m[0] != 'X' {
			continue
		}
		writes = writes || m[0] == 'Q' && bytes.Contains(m, []byte("plan_cache_mode"))
		with := Pass
		if m[0] == 'S' && writes {
			with = p.next()
		}
		switch with {
		case DropRequest:
			return
		case HalfRequest:
			_, _ = server.Write(trip[:last])
			return
		case LoseAnswer:
			close(lost)
		case ServerLeaves:
			if _, err := p.cluster.Terminate(context.Background(), p.name); err != nil {
				p.t.Error(err)
			}
		}
		if _, err := server.Write(trip); err != nil {
			return
		}
		trip, last = trip[:0], 0
	}
}

// answer forwards the server's messages. After lost is closed it waits for the end of one more trip
// and closes the connection.
func (p *Proxy) answer(client, server net.Conn, lost <-chan struct{}) {
	defer client.Close()
	for {
		m, err := message(server, 1)
		if err != nil {
			return
		}
		select {
		case <-lost:
			if m[0] == 'Z' {
				return
			}
			continue
		default:
		}
		if _, err := client.Write(m); err != nil {
			return
		}
	}
}

// message reads one message of the protocol, which has a type of so many bytes before its length.
func message(from io.Reader, typ int) ([]byte, error) {
	head := make([]byte, typ+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[typ:])
	if n < 4 || n > 1<<28 {
		return nil, errors.New("invalid length of a message")
	}
	body := make([]byte, n-4)
	_, err := io.ReadFull(from, body)
	return bytes.Join([][]byte{head, body}, nil), err
}
