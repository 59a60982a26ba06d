package irctest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy passes connections on to a server, until it is told to fall silent.
type Proxy struct {
	Addr string

	listener net.Listener
	to       string
	all      sync.WaitGroup

	// Owned by mu.
	mu   sync.Mutex
	open []net.Conn
	made int           // connections so far
	mute chan struct{} // closed once those that are open pass nothing on to the server
	deaf chan struct{} // closed once they pass nothing on from it
}

// NewProxy makes one, until the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), listener: l, to: to, mute: make(chan struct{}), deaf: make(chan struct{})}
	p.all.Go(func() { p.accept(t) })
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		p.Hush()
		p.mu.Lock()
		for _, c := range p.open {
			c.Close()
		}
		p.mu.Unlock()
		p.all.Wait()
	})
	return p
}

func (p *Proxy) accept(t testing.TB) {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			return
		}
		far, err := net.Dial("tcp", p.to)
		if err != nil {
			near.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, near, far)
		p.made++
		mute, deaf := p.mute, p.deaf
		p.mu.Unlock()
		p.all.Go(func() { pass(far, near, mute) })
		p.all.Go(func() { pass(near, far, deaf) })
	}
}

// pass copies until one side ends, and then ends the other; once it is silent it
// neither copies nor ends anything.
func pass(to, from net.Conn, silent <-chan struct{}) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		select {
		case <-silent:
			if err != nil {
				return
			}
			continue // read, so that nobody notices, and lost
		default:
		}
		if n > 0 {
			if _, wrong := to.Write(buffer[:n]); wrong != nil {
				err = wrong
			}
		}
		if err != nil {
			to.Close()
			if !errors.Is(err, io.EOF) {
				from.Close()
			}
			return
		}
	}
}

// Hush has the connections that are open pass nothing on any more, without closing
// them. Those that come later are passed on.
func (p *Proxy) Hush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.mute)
	close(p.deaf)
	p.mute, p.deaf = make(chan struct{}), make(chan struct{})
}

// Deafen has them pass nothing on any more that the server says.
func (p *Proxy) Deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.deaf)
	p.deaf = make(chan struct{})
}

// Made is how many connections there were.
func (p *Proxy) Made() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}
