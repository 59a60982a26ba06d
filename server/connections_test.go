package server

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// addrListener is a listener whose connections come from given addresses.
type addrListener struct {
	net.Listener
	from []string
}

type fromAddr struct {
	net.Conn
	at string
}

func (c fromAddr) RemoteAddr() net.Addr {
	at, err := net.ResolveTCPAddr("tcp", c.at)
	if err != nil {
		panic(err)
	}
	return at
}

func (l *addrListener) Accept() (net.Conn, error) {
	if len(l.from) == 0 {
		return nil, errors.New("no more")
	}
	at := l.from[0]
	l.from = l.from[1:]
	ours, _ := net.Pipe()
	return fromAddr{ours, at}, nil
}

// accepted returns the connections from these addresses that c accepts.
func accepted(t *testing.T, c *connLimiter, from ...string) (open []net.Conn, who string) {
	t.Helper()
	l := &addrListener{from: from}
	c.Listener = l
	for {
		conn, err := c.Accept()
		if err != nil {
			break
		}
		open = append(open, conn)
		who += " " + conn.RemoteAddr().String()
	}
	return open, strings.TrimPrefix(who, " ")
}

func TestConnectionsAreBoundedInTotalAndPerAddress(t *testing.T) {
	c := newConnLimiter(nil, 32, 2, false)
	open, who := accepted(t, c, "1.1.1.1:1", "1.1.1.1:2", "1.1.1.1:3", "[::ffff:1.1.1.1]:4", "[2001:db8::1]:1",
		"[2001:db8::2]:1", "[2001:db8::3]:1",
		"127.0.0.1:1", "127.0.0.1:2", "[::1]:3")
	if want := "1.1.1.1:1 1.1.1.1:2 [2001:db8::1]:1 [2001:db8::2]:1 127.0.0.1:1 127.0.0.1:2 [::1]:3"; who != want {
		t.Errorf("accepted %s, want %s", who, want)
	}
	for range 2 { // closing twice releases one slot
		if err := open[0].Close(); err != nil {
			t.Error(err)
		}
	}
	if _, who := accepted(t, c, "1.1.1.1:5", "1.1.1.1:6"); who != "1.1.1.1:5" {
		t.Errorf("accepted %q after one was closed", who)
	}
	var many []string
	for i := range 30 {
		many = append(many, net.JoinHostPort(net.IPv4(2, 2, 2, byte(i)).String(), "1"))
	}
	if open, _ := accepted(t, c, many...); len(open) != 32-2-7 {
		t.Errorf("accepted %d of other addresses, want all slots but 2", len(open))
	}
	if _, who := accepted(t, c, "3.3.3.3:1", "127.0.0.1:4", "127.0.0.1:5",
		"127.0.0.1:6"); who != "127.0.0.1:4 127.0.0.1:5" {
		t.Errorf("accepted %q for the last slots", who)
	}
}

func TestBehindAProxyAddressesAreNotLimited(t *testing.T) {
	if open, _ := accepted(t, newConnLimiter(nil, 32, 2, true), "1.1.1.1:1", "1.1.1.1:2", "1.1.1.1:3"); len(open) != 3 {
		t.Errorf("accepted %d", len(open))
	}
}

func TestAnExcessConnectionIsAnsweredAndClosed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := newConnLimiter(ln, 1, 1, false)
	taken := make(chan net.Conn)
	go func() {
		defer close(taken)
		for {
			conn, err := c.Accept()
			if err != nil {
				return
			}
			taken <- conn
		}
	}()
	first, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	held := <-taken
	second, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(second)
	if err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 503 ") || !strings.Contains(string(raw), "Retry-After: ") {
		t.Errorf("the response is %q, %v", raw, err)
	}
	if err := errors.Join(first.Close(), second.Close(), held.Close(), ln.Close()); err != nil {
		t.Error(err)
	}
	<-taken
}
