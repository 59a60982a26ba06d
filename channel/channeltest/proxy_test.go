package channeltest_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"mailroom/channel/channeltest"
)

// echoServer is a server that says again what it is told.
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
				_, _ = io.Copy(c, c) // to the end of the connection
				_ = c.Close()        // which has ended
			}()
		}
	}()
	return ln.Addr().String()
}

// client is a connection over a network.
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
	t.Cleanup(func() { _ = c.Close() }) // it may have ended
	return client{t, c}
}

// send returns what comes back of a text: all of it, or what came before the end or
// before a while had passed.
func (c client) send(text string, patience time.Duration) (heard string, err error) {
	c.t.Helper()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
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
	silence     = 100 * time.Millisecond // in which nothing comes
	echoTimeout = 20 * time.Second       // in which something does
)

func (c client) expectEcho(text string) {
	c.t.Helper()
	if got, err := c.send(text, echoTimeout); got != text || err != nil {
		c.t.Errorf("of %q came %q, %v", text, got, err)
	}
}

func (c client) expectSilence() {
	c.t.Helper()
	got, err := c.send("hello", silence)
	if wait, ok := err.(net.Error); got != "" || !ok || !wait.Timeout() {
		c.t.Errorf("%q came, %v", got, err)
	}
}

func TestANetworkHasTheWeatherThatItIsGiven(t *testing.T) {
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
			t.Errorf("%+v: it took %s", w, took)
		}
	}
	for _, w := range []channeltest.Netfaults{{DropUpstream: true}, {DropDownstream: true}, {DropUpstream: true, DropDownstream: true}} {
		n.SetFaults(w)
		c.expectSilence()
		dial(t, n).expectSilence()
		n.SetFaults(channeltest.Netfaults{})
		if got, err := c.send("hello", echoTimeout); err == nil {
			t.Errorf("%+v: a connection that was half-open goes on: %q", w, got)
		}
		c = dial(t, n)
		c.expectEcho("hello")
	}
	n.SetFaults(channeltest.Netfaults{CutAfter: 7})
	if got, err := c.send("hello, world", echoTimeout); got != "hello, " || err == nil {
		t.Errorf("before it is cut comes %q, %v", got, err)
	}
	n.SetFaults(channeltest.Netfaults{Reset: true})
	if got, err := dial(t, n).send("hello", echoTimeout); got != "" || err == nil {
		t.Errorf("before it is reset comes %q, %v", got, err)
	}
	n.SetFaults(channeltest.Netfaults{})
	dial(t, n).expectEcho("hello")
}

func TestAConnectionThatIsLostIsLostAlone(t *testing.T) {
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
		t.Errorf("it goes on: %q", got)
	}
	later.expectEcho("hello")
}

func TestANetworkThatIsDownComesUpWhereItWas(t *testing.T) {
	n := channeltest.NewProxy(t, echoServer(t))
	c := dial(t, n)
	c.expectEcho("hello")
	n.Down()
	if got, err := c.send("hello", echoTimeout); err == nil {
		t.Errorf("it goes on: %q", got)
	}
	if other, err := net.Dial("tcp", n.Addr); err == nil {
		t.Errorf("it is let in: %v", other.Close())
	}
	n.Up()
	dial(t, n).expectEcho("hello")
}
