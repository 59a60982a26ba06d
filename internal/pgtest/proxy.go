package pgtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fate says what a Proxy does to one trip, which is a request with its answer.
type Fate int

const (
	Pass         Fate = iota
	DropRequest       // the server does not receive the trip
	HalfRequest       // the server receives all but the last statement
	StallRequest      // the same, and the connection stays open until the server ends it
	LoseAnswer        // the server executes the trip, and the answer is lost
	ServerLeaves      // before the server receives the trip, the server ends the session
)

// Link is the state of the network between the clients of a Proxy and the cluster. The zero Link
// passes everything at once.
type Link struct {
	// HoldRequests holds what clients send, and HoldAnswers what the server sends, until a Link without the field is
	// set. Connections stay open, as in a network that loses packets and sends them again.
	HoldRequests, HoldAnswers bool
	// Delay delays each message, in both directions.
	Delay time.Duration
	// Only limits the faults to connections whose application_name ends with it.
	Only string
}

// Proxy forwards connections to a cluster. Its network has the faults of a [Link]. It counts the trips of connections
// that write, which it recognizes by their setting for plans, and can cut one trip; later trips pass.
type Proxy struct {
	cluster  *Cluster
	dir      string
	name     string // application_name of the connections
	listener net.Listener
	all      sync.WaitGroup

	mu      sync.Mutex // guards what follows
	open    map[*proxied]bool
	closed  bool // set by Close
	link    Link
	changed chan struct{} // closed when link changes
	trips   int
	at      int // the trip to cut, counted from 1 at the next one; 0: none
	with    Fate
	err     error // first error of a fault
}

// StartProxy starts a proxy, which ends with the test.
func StartProxy(t testing.TB, c *Cluster) *Proxy {
	t.Helper()
	p, err := NewProxy(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// NewProxy starts a proxy, which Close ends.
func NewProxy(c *Cluster) (*Proxy, error) {
	dir, err := os.MkdirTemp("", "proxy") // not t.TempDir: the path of a socket must be short
	if err != nil {
		return nil, err
	}
	p := &Proxy{cluster: c, dir: dir, name: filepath.Base(dir), open: map[*proxied]bool{}, changed: make(chan struct{})}
	if p.listener, err = net.Listen("unix", filepath.Join(p.dir, ".s.PGSQL.5432")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
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
	return p, nil
}

// Close ends the proxy and its connections. It returns an error if a fault that was asked for did not happen.
func (p *Proxy) Close() error {
	closed := p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.CloseConnections("")
	p.all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(closed, p.err, os.RemoveAll(p.dir))
}

// URL returns a connection string of the cluster through the proxy.
func (p *Proxy) URL() string {
	fields := strings.Fields(p.cluster.URL())
	fields[0] = "host=" + p.dir
	return strings.Join(fields, " ") + " application_name=" + p.name
}

// SetLink changes the network.
func (p *Proxy) SetLink(l Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = l
	close(p.changed)
	p.changed = make(chan struct{})
}

// linkOf returns the network state for a connection with this application_name, and a channel that is closed when the
// state changes.
func (p *Proxy) linkOf(application string) (Link, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.HasSuffix(application, p.link.Only) {
		return Link{}, p.changed
	}
	return p.link, p.changed
}

// CloseConnections ends the connections whose application_name ends with suffix, and loses the messages in them.
func (p *Proxy) CloseConnections(suffix string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		if strings.HasSuffix(c.application, suffix) {
			c.close()
		}
	}
}

// Trips returns the number of trips so far.
func (p *Proxy) Trips() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}

// Cut makes the n-th trip from now fail. If n is 0, no trip fails.
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

// cuts reports whether one of the trips to come will be cut.
func (p *Proxy) cuts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at > 0
}

func (p *Proxy) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// track adds a connection, which untrack removes and closes.
func (p *Proxy) track(c *proxied) (untrack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = true
	if p.closed {
		c.close()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, c)
		c.close()
	}
}

// serve forwards one connection until one side closes it or a trip is cut.
func (p *Proxy) serve(client net.Conn) {
	dir := strings.TrimPrefix(strings.Fields(p.cluster.URL())[0], "host=")
	server, err := net.Dial("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		client.Close()
		return
	}
	c := newProxied(p, client, server)
	untrack := p.track(c)
	c.requests.start(&p.all)
	c.answers.start(&p.all)
	p.all.Go(c.answer)
	c.request(bufio.NewReader(client))
	c.requests.finish() // what the client sent reaches the server before the end of the connection
	untrack()
}

// request forwards the messages of the client. A trip that may be cut is sent whole.
func (c *proxied) request(from *bufio.Reader) {
	p := c.proxy
	startup, err := message(from, 0)
	if err != nil {
		return
	}
	p.mu.Lock()
	c.application = applicationOf(startup)
	p.mu.Unlock()
	c.requests.send(startup)
	var trip []byte // held back
	last := 0       // where its last statement begins
	writes := false // the connection pins its plans
	begins, whole := true, false
	for {
		m, err := message(from, 1)
		if err != nil {
			return
		}
		if begins {
			begins, whole = false, p.cuts()
		}
		ends := m[0] == 'S' || m[0] == 'Q' || m[0] == 'X'
		writes = writes || m[0] == 'Q' && bytes.Contains(m, []byte("plan_cache_mode"))
		with := Pass
		if m[0] == 'S' && writes {
			with = p.next()
		}
		if !whole {
			begins = ends
			c.requests.send(m)
			continue
		}
		if m[0] == 'B' {
			last = len(trip)
		}
		if trip = append(trip, m...); !ends {
			continue
		}
		switch with {
		case DropRequest:
			return
		case HalfRequest:
			c.requests.send(trip[:last])
			return
		case StallRequest:
			c.requests.send(trip[:last])
			<-c.closed
			return
		case LoseAnswer:
			close(c.lost)
		case ServerLeaves:
			if _, err := p.cluster.Terminate(context.Background(), p.name); err != nil {
				p.fail(fmt.Errorf("end the session: %w", err))
			}
		}
		c.requests.send(trip)
		trip, last, begins = nil, 0, true
	}
}

// answer forwards the server's messages. After lost is closed, it waits for the end of the current trip and closes
// the connection.
func (c *proxied) answer() {
	from := bufio.NewReader(c.answers.from)
	defer c.close()
	defer c.answers.finish()
	for {
		m, err := message(from, 1)
		if err != nil {
			return
		}
		select {
		case <-c.lost:
			if m[0] == 'Z' {
				return
			}
			continue
		default:
		}
		c.answers.send(m)
	}
}
