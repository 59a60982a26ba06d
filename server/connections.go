package server

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// connLimiter is a listener that bounds its open connections, in total and per address. Loopback
// connections, or all of them behind a proxy, are trusted: they have no limit per address, and a
// sixteenth of the total is reserved for them.
type connLimiter struct {
	net.Listener
	// Set once.
	max, perAddress int
	trustAll        bool

	mu   sync.Mutex
	open int                  // owned by mu
	by   map[netip.Prefix]int // owned by mu; untrusted connections
}

func newConnLimiter(ln net.Listener, most, each int, trustAll bool) *connLimiter {
	return &connLimiter{Listener: ln, max: most, perAddress: each, trustAll: trustAll, by: map[netip.Prefix]int{}}
}

// Accept returns the next connection within the limits. It refuses others with a short plain-text
// response, which a TLS client cannot read.
func (c *connLimiter) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, trusted := c.origin(conn)
		if c.acquire(from, trusted) {
			return &limitedConn{Conn: conn, limiter: c, from: from, trusted: trusted}, nil
		}
		_ = conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)) // a closed connection fails the write
		_, _ = io.WriteString(conn, refusedConnection)                   // the peer may have gone
		_ = conn.Close()                                                 // the peer may have gone
	}
}

const refusedConnection = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n" +
	"too many connections are open\n"

// origin returns the prefix that a connection is counted by: an IPv4 address, or an IPv6 /64, the
// usual size of one customer's network.
func (c *connLimiter) origin(conn net.Conn) (from netip.Prefix, trusted bool) {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil { // the address is no IP address, as in tests
		return from, true
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	from, err = ip.Prefix(bits)
	return from, err != nil || c.trustAll || ip.IsLoopback()
}

func (c *connLimiter) acquire(from netip.Prefix, trusted bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.max
	if !trusted {
		most -= most / 16
	}
	if c.open >= most || !trusted && c.by[from] >= c.perAddress {
		return false
	}
	c.open++
	if !trusted {
		c.by[from]++
	}
	return true
}

func (c *connLimiter) release(from netip.Prefix, trusted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if trusted {
		return
	}
	if c.by[from]--; c.by[from] == 0 {
		delete(c.by, from)
	}
}

// limitedConn releases its slot when it is closed.
type limitedConn struct {
	net.Conn
	limiter *connLimiter
	from    netip.Prefix
	trusted bool
	closed  atomic.Bool
}

func (c *limitedConn) Close() error {
	if !c.closed.Swap(true) {
		defer c.limiter.release(c.from, c.trusted)
	}
	return c.Conn.Close()
}

// CloseWrite lets net/http send a last response to a client that is still sending.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
