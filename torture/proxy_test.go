package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Faults that the proxy injects into a connection after some bytes.
const (
	kept       = iota // no fault
	dropped           // both ends are reset
	truncated         // closed cleanly in the middle of the data
	halfOpen          // nothing passes any more, without an error
	deaf              // the same, only towards the reader
	delayed           // every piece is delayed; then dropped
	faultKinds        // number of faults
)

// badProxy forwards connections to a server over an unreliable network. Each connection has its own
// fault, which a proxy with one fault for all connections could not give.
type badProxy struct {
	ln       net.Listener
	seed     uint64
	upstream atomic.Pointer[string]   // address of the current server
	kind     atomic.Bool              // from now on connections get no fault
	met      [faultKinds]atomic.Int64 // connections, by fault
	made     atomic.Uint64

	ctx   context.Context
	stop  context.CancelFunc
	crews sync.WaitGroup
}

// newBadProxy listens. close stops it.
func newBadProxy(seed uint64) (*badProxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &badProxy{ln: ln, seed: seed}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.crews.Go(p.accept)
	return p, nil
}

func (p *badProxy) url() string { return "http://" + p.ln.Addr().String() }

// setUpstream sets the server for new connections.
func (p *badProxy) setUpstream(url string) {
	address := strings.TrimPrefix(url, "http://")
	p.upstream.Store(&address)
}

func (p *badProxy) close() error {
	p.stop()
	err := p.ln.Close()
	p.crews.Wait()
	return err
}

func (p *badProxy) accept() {
	for {
		conn, err := p.ln.Accept()
		if err != nil {
			return // closed
		}
		dice := rand.New(rand.NewPCG(p.seed, p.made.Add(1)))
		p.crews.Go(func() { p.forward(conn.(*net.TCPConn), dice) })
	}
}

// forward forwards one connection until its fault occurs.
func (p *badProxy) forward(reader *net.TCPConn, dice *rand.Rand) {
	defer reader.Close() // it may be closed already
	to := p.upstream.Load()
	if to == nil {
		return
	}
	conn, err := net.Dial("tcp", *to)
	if err != nil {
		return // no server is running
	}
	server := conn.(*net.TCPConn)
	defer server.Close() // as above
	defer context.AfterFunc(p.ctx, func() { reset(reader); reset(server) })()
	part := dice.Float64() // so that many are cut in the handshake or soon after
	l := &line{reader: reader, server: server, left: int64(60_000 * part * part * part), fate: dice.IntN(faultKinds),
		late: time.Duration(1+dice.IntN(15)) * time.Millisecond}
	if p.kind.Load() {
		l.fate = kept
	}
	p.met[l.fate].Add(1)
	var both sync.WaitGroup
	both.Go(func() { l.pump(p.ctx, server, reader, false) })
	both.Go(func() { l.pump(p.ctx, reader, server, true) })
	both.Wait()
}

// line is one connection through the proxy.
type line struct {
	reader, server *net.TCPConn
	fate           int
	left           int64 // bytes towards the reader until the fault; owned by its pump
	late           time.Duration
	silent         atomic.Bool // the fault has occurred, and the connection is half open
}

// pump copies bytes in one direction until an end or a fault.
func (l *line) pump(ctx context.Context, to, from *net.TCPConn, down bool) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		piece := buf[:n]
		if down && l.fate != kept {
			met := int64(n) >= l.left
			if met {
				piece = piece[:l.left]
			}
			l.left -= int64(len(piece))
			if l.fate == delayed {
				pause(ctx, l.late)
			}
			if met {
				_, _ = to.Write(piece) // it ends in any case
				l.injectFault(ctx, from)
				return
			}
		}
		if l.silent.Load() && err == nil {
			continue // discarded
		}
		if _, wrote := to.Write(piece); err != nil || wrote != nil {
			_ = to.CloseWrite() // the other direction ends by itself
			if wrote != nil {
				reset(from)
			}
			return
		}
	}
}

// injectFault injects the connection's fault.
func (l *line) injectFault(ctx context.Context, from *net.TCPConn) {
	switch l.fate {
	case truncated:
		_ = l.reader.CloseWrite() // it may be closed already
		reset(l.server)
	case dropped, delayed:
		reset(l.reader)
		reset(l.server)
	case halfOpen, deaf:
		l.silent.Store(l.fate == halfOpen)
		_, _ = io.Copy(io.Discard, from) // until the server or the reader closes
	}
}

// reset closes a connection with a reset.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // it may be closed already
	_ = c.Close()      // as above
}

func (p *badProxy) String() string {
	names := [faultKinds]string{"kept", "dropped", "truncated", "half open", "deaf", "delayed and dropped"}
	var parts []string
	for i, name := range names {
		parts = append(parts, fmt.Sprintf("%d %s", p.met[i].Load(), name))
	}
	return fmt.Sprintf("%d connections: %s", p.made.Load(), strings.Join(parts, ", "))
}
