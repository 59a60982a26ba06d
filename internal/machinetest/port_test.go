package machinetest_test

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"mailroom/internal/machinetest"
)

func wantRefused(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		_ = conn.Close() // the test has failed already
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial %s: %v, want connection refused", addr, err)
	}
}

func TestAReservedPortRefusesUntilItsServerListens(t *testing.T) {
	addr := machinetest.Reserve(t)
	wantRefused(t, addr)
	for range 3 {
		ln := machinetest.Listen(t, addr)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := net.Listen("tcp", addr); err == nil { // archtest: it must fail.
			t.Errorf("two servers listen on %s", again.Addr())
		}
		// The server closes first, so that its end of the connection is the one that stays in TIME_WAIT.
		if err := errors.Join(ln.Close(), accepted.Close(), conn.Close()); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, addr)
	}
}

// TestTheSystemGivesAReservedPortToNoOtherProgram asks for 10,000 ports, for listeners and for outgoing connections. Of
// 200 ports that are only closed, the system gives one away within some hundred.
func TestTheSystemGivesAReservedPortToNoOtherProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // only Linux can hold a port
	}
	held := map[string]bool{}
	for range 200 {
		held[machinetest.Reserve(t)] = true
	}
	if len(held) != 200 {
		t.Errorf("%d ports, want 200 different ones", len(held))
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close() // nothing was written
	for range 5000 {
		ln, err := net.Listen("tcp", "127.0.0.1:0") // archtest: it listens while the test looks at its port.
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range []net.Addr{ln.Addr(), conn.LocalAddr()} {
			if held[addr.String()] {
				t.Fatalf("the system gave the reserved port %s to another socket", addr)
			}
		}
		if err := errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close(), accepted.Close(), ln.Close()); err != nil &&
			!strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
	}
}

func TestAReleasedPortIsFree(t *testing.T) {
	p, err := machinetest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	ln := machinetest.Listen(t, p.Addr)
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatalf("the server does not outlive the hold of its port: %v", err)
	}
	if err := errors.Join(conn.Close(), ln.Close()); err != nil {
		t.Error(err)
	}
}
