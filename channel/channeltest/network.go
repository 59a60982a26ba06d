package channeltest

import (
	"encoding/json"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	toxistream "github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// Network is the way to a platform, on loopback. It has the weather that it is
// given. Its methods may be called concurrently.
type Network struct {
	Addr string // host:port, the same after each Down

	t       testing.TB
	to      string
	server  *toxiproxy.ApiServer
	toxics  *toxiproxy.ToxicCollection
	letting sync.WaitGroup // who lets connections in

	change sync.Mutex // held by who changes the weather

	// Owned by mu.
	mu       sync.Mutex
	listener net.Listener // nil: it is down
	open     map[*net.TCPConn]bool
	made     int  // connections so far
	abrupt   bool // connections end without a word
}

// Weather is what becomes of what passes a network. In the zero one everything
// arrives. Cut and Reset go with nothing else.
type Weather struct {
	Latency, Jitter time.Duration // of each piece and way; whole milliseconds
	Rate            int           // kilobytes a second each way; 0: any
	Slice           int           // bytes of the pieces that everything comes in; 0: as it was sent
	Cut             int           // bytes that a connection brings from the platform before it breaks off; 0: any
	Reset           bool          // connections are reset soon, and bring nothing before
	Mute            bool          // nothing arrives at the platform, and connections stay open
	Deaf            bool          // nothing arrives from it, and connections stay open
}

// NewNetwork makes one in front of host:port, until the test ends.
func NewNetwork(t testing.TB, to string) *Network {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled) // some of the proxy's parts know no other logger
	register()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	n := &Network{
		Addr: "127.0.0.1:0", t: t, to: to, server: server, open: map[*net.TCPConn]bool{},
		toxics: toxiproxy.NewProxy(server, t.Name(), "", to).Toxics,
	}
	n.Up()
	t.Cleanup(func() {
		n.Down()
		n.Change(Weather{}) // what is lost ends
	})
	return n
}

// Change changes the weather. It holds for connections that are open and for later
// ones. Those to which nothing passed before, or of which something was lost, end.
func (n *Network) Change(w Weather) {
	n.t.Helper()
	n.change.Lock()
	defer n.change.Unlock()
	n.toxics.ResetToxics(n.t.Context())
	n.ends(w.Reset)
	both := []toxistream.Direction{toxistream.Upstream, toxistream.Downstream}
	if w.Latency > 0 || w.Jitter > 0 {
		n.add("latency", map[string]any{"latency": w.Latency.Milliseconds(), "jitter": w.Jitter.Milliseconds()}, both...)
	}
	if w.Rate > 0 {
		n.add("bandwidth", map[string]any{"rate": w.Rate}, both...)
	}
	if w.Slice > 0 {
		n.add("slicer", map[string]any{"average_size": w.Slice, "size_variation": w.Slice / 2}, both...)
	}
	if w.Cut > 0 {
		n.add("limit_data", map[string]any{"bytes": w.Cut}, toxistream.Downstream)
	}
	if w.Reset {
		n.add("timeout", map[string]any{"timeout": 5}, both...)
	}
	if w.Mute {
		n.add("timeout", nil, toxistream.Upstream)
	}
	if w.Deaf {
		n.add("timeout", nil, toxistream.Downstream)
	}
}

// Lose has the connections that are open pass nothing on any more, without a word to
// either side. Later ones are as the weather has them. It is to be said once between
// two changes of it.
func (n *Network) Lose() {
	n.t.Helper()
	n.change.Lock()
	defer n.change.Unlock()
	for _, added := range n.add(lostType, nil, toxistream.Upstream, toxistream.Downstream) {
		added.Toxic.(*lost).over.Store(true)
	}
}

// add is within change.
func (n *Network) add(kind string, attributes map[string]any, ways ...toxistream.Direction) (all []*toxics.ToxicWrapper) {
	n.t.Helper()
	if attributes == nil {
		attributes = map[string]any{}
	}
	for _, way := range ways {
		raw, err := json.Marshal(map[string]any{"type": kind, "stream": way.String(), "attributes": attributes})
		if err != nil {
			n.t.Fatal(err)
		}
		added, err := n.toxics.AddToxicJson(strings.NewReader(string(raw)))
		if err != nil {
			n.t.Fatalf("%s: %v", raw, err)
		}
		all = append(all, added)
	}
	return all
}

// ends says how connections end from now on.
func (n *Network) ends(abrupt bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.abrupt = abrupt
	for c := range n.open {
		n.linger(c)
	}
}

// linger is within mu.
func (n *Network) linger(c *net.TCPConn) {
	seconds := -1
	if n.abrupt {
		seconds = 0
	}
	_ = c.SetLinger(seconds) // one that has ended has ended
}

// Down ends all connections and refuses others.
func (n *Network) Down() {
	n.mu.Lock()
	if n.listener != nil {
		_ = n.listener.Close() // it was listened on
		n.listener = nil
	}
	n.mu.Unlock()
	n.letting.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.open {
		_ = c.Close() // as linger
	}
}

// Up ends what Down has begun.
func (n *Network) Up() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	ln, err := net.Listen("tcp", n.Addr)
	if err != nil {
		n.t.Fatal(err)
	}
	n.listener, n.Addr = ln, ln.Addr().String()
	n.letting.Go(func() { n.let(ln) })
}

// let lets connections in until the listener is closed.
func (n *Network) let(ln net.Listener) {
	for {
		near, err := ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", n.to)
		if err != nil {
			_ = near.Close() // there is nobody behind it
			continue
		}
		n.join(near.(*net.TCPConn), far.(*net.TCPConn))
	}
}

// join passes on what each of them brings to the other, through the weather.
func (n *Network) join(near, far *net.TCPConn) {
	n.mu.Lock()
	n.made++
	name := strconv.Itoa(n.made)
	for _, c := range []*net.TCPConn{near, far} {
		n.open[c] = true
		n.linger(c)
	}
	n.mu.Unlock()
	n.toxics.StartLink(n.server, name+" up", near, &end{n, far, false}, toxistream.Upstream)
	n.toxics.StartLink(n.server, name+" down", far, &end{n, near, false}, toxistream.Downstream)
}

// end is where a way of a connection ends. It takes all, also what nobody gets: the
// proxy cannot be told otherwise while somebody waits to be rid of something.
type end struct {
	n    *Network
	conn *net.TCPConn
	gone bool
}

// Write implements [io.Writer].
func (e *end) Write(b []byte) (int, error) {
	if !e.gone {
		_, err := e.conn.Write(b)
		e.gone = err != nil
	}
	return len(b), nil
}

// Close implements [io.Closer].
func (e *end) Close() error {
	e.n.mu.Lock()
	delete(e.n.open, e.conn)
	e.n.mu.Unlock()
	return e.conn.Close()
}

// through is the address of the network in the place of that which it is in front
// of: host:port, or the same in a URL.
func (n *Network) through(addr string) string {
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

const lostType = "mailroom_lost"

// register makes the toxic known by its name, once.
var register = sync.OnceFunc(func() { toxics.Register(lostType, new(lost)) })

// lost swallows all that connections bring which were open when it was added, and
// their ends too. It passes on what later ones bring.
type lost struct {
	over atomic.Bool // those that come now are later ones
}

// NewState implements [toxics.StatefulToxic].
func (l *lost) NewState() any { return !l.over.Load() }

// Pipe implements [toxics.Toxic].
func (l *lost) Pipe(stub *toxics.ToxicStub) {
	if !stub.State.(bool) {
		new(toxics.NoopToxic).Pipe(stub)
		return
	}
	input := stub.Input
	for {
		select {
		case <-stub.Interrupt:
			return
		case piece := <-input:
			if piece == nil {
				input = nil // nobody is told
			}
		}
	}
}

// Cleanup implements [toxics.CleanupToxic].
func (l *lost) Cleanup(stub *toxics.ToxicStub) {
	if stub.State.(bool) {
		stub.Close()
	}
}
