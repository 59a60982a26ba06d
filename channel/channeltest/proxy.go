package channeltest

import (
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Proxy is the way to a platform, on loopback. It has the weather that it is
// given. Its methods may be called concurrently.
type Proxy struct {
	Addr string // host:port, the same after each Down

	t       testing.TB
	to      string
	accept  sync.WaitGroup // the goroutine that accepts connections
	running sync.WaitGroup // the goroutines of connections

	// Owned by mu.
	mu       sync.Mutex
	listener net.Listener // nil: it is down
	conns    map[*conn]bool
	faults   Netfaults
	changed  chan struct{} // closed and replaced when the weather changes
}

// Netfaults is what becomes of what passes a network. In the zero one everything
// arrives. Cut and Reset go with nothing else.
type Netfaults struct {
	Latency, Jitter time.Duration // of each piece and way
	Rate            int           // kilobytes a second each way; 0: any
	Slice           int           // bytes of the pieces that everything comes in; 0: as it was sent
	CutAfter        int           // bytes that a connection brings from the platform before it breaks off; 0: any
	Reset           bool          // connections are reset soon, and bring nothing before
	DropUpstream    bool          // nothing arrives at the platform, and connections stay open
	DropDownstream  bool          // nothing arrives from it, and connections stay open
}

// resetAfter is how long a connection lasts that the weather resets.
const resetAfter = 5 * time.Millisecond

// conn is a connection through the network: a TCP connection on each side.
type conn struct {
	client, server *net.TCPConn
	closed         chan struct{}

	// Owned by Network.mu.
	isClosed   bool
	blackholed bool        // passes nothing on, not even its end
	broken     bool        // lost something: it ends when the weather changes
	downstream int         // bytes from the platform since the weather changed
	reset      *time.Timer // nil: the weather does not reset it
}

// packet is what one read of a connection brought.
type packet struct {
	data   []byte
	at     time.Time
	jitter float64 // its share of the jitter, -1 to 1
}

// NewProxy makes one in front of host:port, until the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	n := &Proxy{Addr: "127.0.0.1:0", t: t, to: to, conns: map[*conn]bool{}, changed: make(chan struct{})}
	n.Up()
	t.Cleanup(func() {
		n.Down()
		n.running.Wait()
	})
	return n
}

// SetFaults changes the weather. It holds for connections that are open and for later
// ones. Those to which nothing passed before, or of which something was lost, end.
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

// BlackholeOpen has the connections that are open pass nothing on any more, without a word to
// either side. Later ones are as the weather has them.
func (n *Proxy) BlackholeOpen() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.conns {
		l.blackholed = true
	}
	n.wake()
}

// wake has every waiting piece look at the weather again. The caller holds mu.
func (n *Proxy) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// applyFaults applies what concerns a connection as a whole. The caller holds mu.
func (n *Proxy) applyFaults(l *conn) {
	w := n.faults
	l.broken = w.DropUpstream || w.DropDownstream || w.Reset
	if !w.Reset {
		return
	}
	for _, c := range []*net.TCPConn{l.client, l.server} {
		_ = c.SetLinger(0) // fails when the peer has closed it
	}
	l.reset = time.AfterFunc(resetAfter, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.close(l)
	})
}

// close ends a connection. The caller holds mu.
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
	_ = l.client.Close() // the first close of it
	_ = l.server.Close()
}

// Down ends all connections and refuses others.
func (n *Proxy) Down() {
	n.mu.Lock()
	if n.listener != nil {
		_ = n.listener.Close() // it was listened on
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

// Up ends what Down has begun.
func (n *Proxy) Up() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	ln, err := net.Listen("tcp", n.Addr)
	if err != nil {
		n.t.Fatal(err)
	}
	n.listener, n.Addr = ln, ln.Addr().String()
	n.accept.Go(func() { n.serve(ln) })
}

// serve accepts connections until the listener is closed.
func (n *Proxy) serve(ln net.Listener) {
	for {
		near, err := ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", n.to)
		if err != nil {
			_ = near.Close() // the platform does not listen
			continue
		}
		n.relay(&conn{client: near.(*net.TCPConn), server: far.(*net.TCPConn), closed: make(chan struct{})})
	}
}

// relay passes on what each side of a connection brings to the other.
func (n *Proxy) relay(l *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[l] = true
	n.applyFaults(l)
	n.relayOneWay(l, l.client, l.server, false)
	n.relayOneWay(l, l.server, l.client, true)
}

// relayOneWay starts one way of a connection. Reading goes on while pieces are on their
// way, so that latency costs no throughput.
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

// onClosed closes a connection when one of its sides has ended and the weather lets that end
// pass.
func (n *Proxy) onClosed(l *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !l.blackholed && !l.broken {
		n.close(l)
	}
}

// forward writes a piece to the other side as the weather has it, and reports whether the
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
		if down && !n.countDownstream(l, size) {
			return false
		}
	}
	return true
}

// wait waits, and reports whether the weather changed first and whether the connection
// is still open.
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

// countDownstream counts bytes from the platform, and reports false when the connection is cut.
func (n *Proxy) countDownstream(l *conn, size int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.downstream += size
	if n.faults.CutAfter > 0 && l.downstream >= n.faults.CutAfter {
		n.close(l)
		return false
	}
	return true
}

// address is the address of the network in the place of that which it is in front
// of: host:port, or the same in a URL.
func (n *Proxy) address(addr string) string {
	if u, err := url.Parse(addr); err == nil && u.Host != "" {
		u.Host = n.Addr
		return u.String()
	}
	return n.Addr
}

// hostPort is that of an address, which may be a URL.
func hostPort(addr string) string {
	if u, err := url.Parse(addr); err == nil && u.Host != "" {
		addr = u.Host
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return ""
	}
	return addr
}
