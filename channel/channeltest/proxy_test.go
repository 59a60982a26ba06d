package channeltest_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"mailroom/channel/channeltest"
)

// echoServer starts a server that echoes its input.
func echoServer(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	})
	go func() { // ends with the listener
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c) // ends with the connection
				_ = c.Close()        // the connection has ended
			}()
		}
	}()
	return ln.Addr().String()
}

// client is a connection through a proxy.
type client struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, n *channeltest.Proxy) client {
	t.Helper()
	c, err := net.Dial("tcp", n.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return client{t, c}
}

// send sends a text and returns its echo, up to the end of the connection or the timeout.
func (c client) send(text string, timeout time.Duration) (echo string, err error) {
	c.t.Helper()
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	raw := make([]byte, len(text))
	n, err := io.ReadFull(c, raw)
	return string(raw[:n]), err
}

const (
	silence     = 100 * time.Millisecond // no echo arrives within it
	echoTimeout = 5 * time.Minute        // an echo arrives within it
)

func (c client) expectEcho(text string) {
	c.t.Helper()
	if got, err := c.send(text, echoTimeout); got != text || err != nil {
		c.t.Errorf("echo of %q is %q, %v", text, got, err)
	}
}

func (c client) expectSilence() {
	c.t.Helper()
	got, err := c.send("hello", silence)
	if wait, ok := err.(net.Error); got != "" || !ok || !wait.Timeout() {
		c.t.Errorf("echo %q, %v; want a timeout", got, err)
	}
}

func TestAProxyInjectsItsFaults(t *testing.T) {
	n := channeltest.NewProxy(t, echoServer(t))
	c := dial(t, n)
	c.expectEcho("hello")
	text := strings.Repeat("many words ", 100)
	for _, w := range []channeltest.Netfaults{
		{Latency: 10 * time.Millisecond, Jitter: 5 * time.Millisecond}, {Rate: 50}, {Slice: 20},
		{Latency: 5 * time.Millisecond, Rate: 50, Slice: 20}, {},
	} {
		n.SetFaults(w)
		began := time.Now()
		c.expectEcho(text)
		if took := time.Since(began); took < 2*(w.Latency-w.Jitter) {
			t.Errorf("%+v: the echo took %s", w, took)
		}
	}
	for _, w := range []channeltest.Netfaults{{DropUpstream: true}, {DropDownstream: true},
		{DropUpstream: true, DropDownstream: true}} {
		n.SetFaults(w)
		c.expectSilence()
		dial(t, n).expectSilence()
		n.SetFaults(channeltest.Netfaults{})
		if got, err := c.send("hello", echoTimeout); err == nil {
			t.Errorf("%+v: echo of %q over a half-open connection", w, got)
		}
		c = dial(t, n)
		c.expectEcho("hello")
	}
	n.SetFaults(channeltest.Netfaults{CutAfter: 7})
	if got, err := c.send("hello, world", echoTimeout); got != "hello, " || err == nil {
		t.Errorf("echo before the cut: %q, %v", got, err)
	}
	n.SetFaults(channeltest.Netfaults{Reset: true})
	if got, err := dial(t, n).send("hello", echoTimeout); got != "" || err == nil {
		t.Errorf("echo before the reset: %q, %v", got, err)
	}
	n.SetFaults(channeltest.Netfaults{})
	dial(t, n).expectEcho("hello")
}

func TestABlackholeAffectsOpenConnectionsOnly(t *testing.T) {
	n := channeltest.NewProxy(t, echoServer(t))
	c := dial(t, n)
	c.expectEcho("hello")
	n.BlackholeOpen()
	c.expectSilence()
	later := dial(t, n)
	later.expectEcho("hello")
	c.expectSilence()
	n.SetFaults(channeltest.Netfaults{})
	if got, err := c.send("hello", echoTimeout); err == nil {
		t.Errorf("echo %q over a closed connection", got)
	}
	later.expectEcho("hello")
}

func TestAProxyComesUpAtItsAddress(t *testing.T) {
	n := channeltest.NewProxy(t, echoServer(t))
	c := dial(t, n)
	c.expectEcho("hello")
	n.Down()
	if got, err := c.send("hello", echoTimeout); err == nil {
		t.Errorf("echo %q over a closed connection", got)
	}
	if other, err := net.Dial("tcp", n.Addr); err == nil {
		t.Errorf("a new connection is accepted: %v", other.Close())
	}
	n.Up()
	dial(t, n).expectEcho("hello")
}
