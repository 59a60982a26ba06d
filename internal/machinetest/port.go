// Package machinetest has what tests need of the machine: ports that no other process gets, programs to start, names
// that resolve to a chosen address.
//
// A test that closes a listener and relies on its port afterwards is wrong on a busy machine: the system gives the
// port to another process at once, which then answers in its place or keeps it from listening again. Here a socket
// that is bound and never listens keeps the port. While no server listens there, the system refuses connections.
//
// A program that the race detector watches needs 28 ms of processor time to start and to end, and 6 ms without.
// Commands that end at once run without it: tests of the same code run in the test program. Servers, workers and
// whatever else runs for long are the test program itself.
package machinetest

import (
	"net"
	"testing"
)

// Port is a port of 127.0.0.1 that the system gives to no other process until Release. It refuses connections, except
// while a program listens on it. Any program may listen on it, also after another one has ended, if it sets
// SO_REUSEADDR before it binds, as [net.Listen] and all servers that can restart do.
type Port struct {
	Addr   string // host:port
	Number int

	hold func() error
}

// Hold returns a port that is held until Release.
func Hold() (*Port, error) {
	addr, release, err := hold()
	if err != nil {
		return nil, err
	}
	return &Port{Addr: addr.String(), Number: addr.Port, hold: release}, nil
}

// Release gives the port back to the system. A program that listens on the port keeps it.
func (p *Port) Release() error { return p.hold() }

// Reserve returns the address of a port that is held until the test and its cleanups have ended.
func Reserve(t testing.TB) string {
	t.Helper()
	p, err := Hold()
	if err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Release(); err != nil {
			t.Errorf("release %s: %v", p.Addr, err)
		}
	})
	return p.Addr
}

// Listen listens on an address that is held.
func Listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr) // archtest: Reserve holds the port.
	if err != nil {
		t.Fatal(err)
	}
	return ln
}
