package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mailroom/internal/pgtest"
)

// fate is what a proxy does to one trip.
type fate int

const (
	pass         fate = iota
	dropRequest       // the server does not receive it
	halfRequest       // the server receives all but the last statement
	loseAnswer        // the server executes it, and the answer is lost
	serverLeaves      // before the server receives it, the server ends the session
)

// proxy forwards connections to a cluster. It cuts one trip of a connection, after which new
// connections pass.
type proxy struct {
	t        *testing.T
	cluster  *pgtest.Cluster
	dir      string
	listener net.Listener
	all      sync.WaitGroup

	mu   sync.Mutex // guards what follows
	open map[net.Conn]bool
	at   int // the trip to cut, counted from 1 at the next one; 0: none
	with fate
}

func startProxy(t *testing.T, c *pgtest.Cluster) *proxy {
	t.Helper()
	p := &proxy{t: t, cluster: c, dir: t.TempDir(), open: map[net.Conn]bool{}}
	var err error
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
	})
	return p
}

// url is the cluster's through the proxy.
func (p *proxy) url() string {
	fields := strings.Fields(p.cluster.URL())
	fields[0] = "host=" + p.dir
	return strings.Join(fields, " ")
}

// cut has the n-th trip from now fail.
func (p *proxy) cut(n int, with fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.with = n, with
}

// next counts a trip and returns what happens to it.
func (p *proxy) next() fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == 0 {
		return pass
	}
	if p.at--; p.at > 0 {
		return pass
	}
	return p.with
}

func (p *proxy) track(conns ...net.Conn) (untrack func()) {
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
func (p *proxy) serve(client net.Conn) {
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
	last := 0 // where the trip's last statement begins
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
		with := pass
		if m[0] == 'S' {
			with = p.next()
		}
		switch with {
		case dropRequest:
			return
		case halfRequest:
			_, _ = server.Write(trip[:last])
			return
		case loseAnswer:
			close(lost)
		case serverLeaves:
			if _, err := p.cluster.Terminate(p.t.Context(), "mailroom"); err != nil {
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
func (p *proxy) answer(client, server net.Conn, lost <-chan struct{}) {
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
