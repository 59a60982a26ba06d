package channeltest

import (
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"mailroom/internal/machinetest"
)

// Proxy is a TCP proxy on loopback that injects faults between a channel and a platform. Its
// methods may be called concurrently.
type Proxy struct {
	Addr string // host:port; Up keeps it

	t       testing.TB
	to      string
	accept  sync.WaitGroup // the accepting goroutine
	running sync.WaitGroup // the connections' goroutines

	// Owned by mu.
	mu       sync.Mutex
	listener net.Listener // nil while the proxy is down
	conns    map[*conn]bool
	faults   Netfaults
	changed  chan struct{} // closed and replaced when the faults change
}

// Netfaults are the faults of a [Proxy]. The zero value has none. CutAfter and Reset cannot be
// combined with others.
type Netfaults struct {
	Latency, Jitter time.Duration // delay of each packet in each direction
	Rate            int           // kilobytes per second in each direction; 0: unlimited
	Slice           int           // fragment size in bytes; 0: no fragmentation
	CutAfter        int           // bytes from the platform until a connection is closed; 0: never
	Reset           bool          // connections are reset before any data
	DropUpstream    bool          // data to the platform is lost; connections stay open
	DropDownstream  bool          // data from the platform is lost; connections stay open
}

// resetAfter is the lifetime of a connection under Netfaults.Reset.
const resetAfter = 5 * time.Millisecond

// conn is a proxied connection: a TCP connection on each side.
type conn struct {
	client, server *net.TCPConn
	closed         chan struct{}

	// Owned by Proxy.mu.
	isClosed   bool
	blackholed bool        // drops all data and the close
	broken     bool        // data was lost: the connection closes when the faults change
	downstream int         // bytes from the platform since the faults changed
	reset      *time.Timer // nil without Netfaults.Reset
}

// packet is the data of one read.
type packet struct {
	data   []byte
	at     time.Time
	jitter float64 // factor of Netfaults.Jitter, -1 to 1
}

// NewProxy starts a proxy in front of host:port until the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	n := &Proxy{Addr: machinetest.Reserve(t), t: t, to: to, conns: map[*conn]bool{}, changed: make(chan struct{})}
	n.Up()
	t.Cleanup(func() {
		n.Down()
		n.running.Wait()
	})
	return n
}

// SetFaults replaces the faults, for open and for later connections. It closes connections that
// have lost data.
func (n *Proxy) SetFaults(w Netfaults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = w
	for l := range n.conns {
		if l.broken || l.blackholed {
			n.close(l)
			continue
		}
		l.downstream = 0
		n.applyFaults(l)
	}
	n.wake()
}

// BlackholeOpen drops all data of the connections that are open now, without closing them. Later
// connections are not affected.
func (n *Proxy) BlackholeOpen() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.conns {
		l.blackholed = true
	}
	n.wake()
}

// wake makes every waiting packet check the faults again. The caller holds mu.
func (n *Proxy) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// applyFaults applies the faults of a whole connection. The caller holds mu.
func (n *Proxy) applyFaults(l *conn) {
	w := n.faults
	l.broken = w.DropUpstream || w.DropDownstream || w.Reset
	if !w.Reset {
		return
	}
	for _, c := range []*net.TCPConn{l.client, l.server} {
		_ = c.SetLinger(0) // fails if the peer has closed
	}
	l.reset = time.AfterFunc(resetAfter, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.close(l)
	})
}

// close closes a connection. The caller holds mu.
func (n *Proxy) close(l *conn) {
	if l.isClosed {
		return
	}
	l.isClosed = true
	delete(n.conns, l)
	if l.reset != nil {
		l.reset.Stop()
	}
	close(l.closed)
	_ = l.client.Close() // isClosed excludes a second close
	_ = l.server.Close()
}

// Down closes all connections and refuses new ones.
func (n *Proxy) Down() {
	n.mu.Lock()
	if n.listener != nil {
		_ = n.listener.Close() // its only close
		n.listener = nil
	}
	n.mu.Unlock()
	n.accept.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.conns {
		n.close(l)
	}
}

// Up undoes Down.
func (n *Proxy) Up() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	ln := machinetest.Listen(n.t, n.Addr)
	n.listener = ln
	n.accept.Go(func() { n.serve(ln) })
}

// serve accepts connections until the listener is closed.
func (n *Proxy) serve(ln net.Listener) {
	for {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", n.to)
		if err != nil {
			_ = client.Close() // the platform does not listen
			continue
		}
		n.relay(&conn{client: client.(*net.TCPConn), server: server.(*net.TCPConn), closed: make(chan struct{})})
	}
}

// relay forwards data in both directions.
func (n *Proxy) relay(l *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[l] = true
	n.applyFaults(l)
	n.relayOneWay(l, l.client, l.server, false)
	n.relayOneWay(l, l.server, l.client, true)
}

// relayOneWay forwards data in one direction. It reads ahead, so that latency does not reduce
// throughput.
func (n *Proxy) relayOneWay(l *conn, from, to *net.TCPConn, down bool) {
	pieces := make(chan packet, 1024)
	n.running.Go(func() {
		defer close(pieces)
		for {
			data := make([]byte, 32<<10)
			size, err := from.Read(data)
			if size > 0 {
				select {
				case pieces <- packet{data[:size], time.Now(), 2*rand.Float64() - 1}:
				case <-l.closed:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	n.running.Go(func() {
		for p := range pieces {
			if !n.forward(l, p, to, down) {
				return
			}
		}
		n.onClosed(l)
	})
}

// onClosed closes a connection after one side has closed it, unless the faults hide that.
func (n *Proxy) onClosed(l *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !l.blackholed && !l.broken {
		n.close(l)
	}
}

// forward writes a packet to the other side under the present faults. It reports whether the
// connection goes on.
func (n *Proxy) forward(l *conn, p packet, to *net.TCPConn, down bool) bool {
	for len(p.data) > 0 {
		n.mu.Lock()
		w, lost, changed := n.faults, l.blackholed, n.changed
		size := len(p.data)
		if w.Slice > 0 {
			size = min(size, max(1, w.Slice/2+rand.IntN(w.Slice)))
		}
		if down && w.CutAfter > 0 {
			size = min(size, w.CutAfter-l.downstream)
		}
		n.mu.Unlock()
		if lost || w.Reset || w.DropUpstream && !down || w.DropDownstream && down {
			return true
		}
		due := p.at.Add(w.Latency + time.Duration(p.jitter*float64(w.Jitter)))
		if w.Rate > 0 {
			if sent := time.Now().Add(time.Duration(size) * time.Second / time.Duration(w.Rate*1000)); sent.After(due) {
				due = sent
			}
		}
		if wait := time.Until(due); wait > 0 {
			if again, open := l.wait(wait, changed); !open {
				return false
			} else if again {
				continue
			}
		}
		if _, err := to.Write(p.data[:size]); err != nil {
			n.onClosed(l)
			return false
		}
		p.data = p.data[size:]
		if down && !n.countDownstream(l, size, changed) {
			return false
		}
	}
	return true
}

// wait waits for d. It reports whether the faults changed before and whether the connection is
// open.
func (l *conn) wait(d time.Duration, changed <-chan struct{}) (again, open bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, true
	case <-changed:
		return true, true
	case <-l.closed:
		return false, false
	}
}

// countDownstream counts bytes from the platform that were sent before the faults changed again.
// It reports false when the connection is cut.
func (n *Proxy) countDownstream(l *conn, size int, changed <-chan struct{}) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if changed == n.changed {
		l.downstream += size
	}
	if n.faults.CutAfter > 0 && l.downstream >= n.faults.CutAfter {
		n.close(l)
		return false
	}
	return true
}

// address replaces the host of a platform's address, host:port or a URL, by the proxy's.
func (n *Proxy) address(addr string) string {
	if u, err := url.Parse(addr); err == nil && u.Host != "" {
		u.Host = n.Addr
		return u.String()
	}
	return n.Addr
}

// hostPort returns the host and port of an address or a URL.
func hostPort(addr string) string {
	if u, err := url.Parse(addr); err == nil && u.Host != "" {
		addr = u.Host
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return ""
	}
	return addr
}
