package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/auth"
	"mailroom/server"
	"mailroom/thread"
)

// stallListener is a listener whose connections delay one write each after stall.
type stallListener struct {
	net.Listener
	late time.Duration

	mu    sync.Mutex
	conns []*stallConn // owned by mu
}

func (l *stallListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &stallConn{Conn: conn, late: l.late}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return c, nil
}

// stall delays the next write of each connection.
func (l *stallListener) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.mu.Lock()
		c.stalled = true
		c.mu.Unlock()
	}
}

type stallConn struct {
	net.Conn
	late time.Duration

	mu      sync.Mutex
	stalled bool // owned by mu
}

// SetWriteDeadline does nothing, so that a delayed write succeeds in the end.
func (c *stallConn) SetWriteDeadline(time.Time) error { return nil }

func (c *stallConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	stalled := c.stalled
	c.stalled = false
	c.mu.Unlock()
	if stalled {
		timer := time.NewTimer(c.late)
		defer timer.Stop()
		<-timer.C
	}
	return c.Conn.Write(b)
}

// startStalling is start with a listener that can stall writes for longer than WriteTimeout.
func startStalling(t *testing.T) (*fixture, *stallListener) {
	t.Helper()
	line := &stallListener{late: 150 * time.Millisecond}
	f := startOn(t, func(ln net.Listener) net.Listener { line.Listener = ln; return line }, func(o *server.Options) {
		o.Limits.WriteTimeout = 100 * time.Millisecond
	})
	return f, line
}

func TestASlowSocketIsClosedWithTheCursorsOfItsSubscriptions(t *testing.T) {
	f, line := startStalling(t)
	f.submit("t", "one")
	f.submit("u", "two")
	p := f.dialWithToken()
	p.send(`{"op":"subscribe","id":1,"thread":"t","after":"1"}`)
	p.want("ack 1 1", "entry 1 2 run.queued")
	p.send(`{"op":"subscribe","id":2,"thread":"u","after":"1"}`)
	p.want("ack 2 2", "entry 2 2 run.queued")
	p.send(`{"op":"subscribe","id":3}`)
	p.want("ack 3 3")
	p.send(`{"op":"unsubscribe","id":4,"sub":"3"}`)
	p.want("ack 4 3")
	line.stall()
	if _, err := f.ledger.Submit(t.Context(), thread.Submit{
		Thread: "u", Messages: []thread.NewMessage{{Parts: mailroom.Text("three")}}, Owner: auth.Operator,
		Sender: auth.Operator, Agent: "echo",
	}); err != nil {
		t.Fatal(err)
	}
	p.want("entry 2 3 message") // the delayed frame still arrives
	if got, want := p.closed(), (websocket.CloseError{Code: 4408, Reason: "2=3 1=2"}); got != want {
		t.Errorf("closed with %v, want %v", got, want)
	}
	f.log.wait(t, `"status":101`)
	if !strings.Contains(f.log.String(), `"cut":true`) {
		t.Errorf("the log line lacks cut: %s", f.log)
	}
	again := f.dialWithToken()
	again.send(`{"op":"subscribe","id":1,"thread":"u","after":"3"}`)
	again.want("ack 1 1", "entry 1 4 run.queued")
}

func TestASlowEventReaderLearnsWhyItsStreamEnds(t *testing.T) {
	f, line := startStalling(t)
	f.submit("t", "one")
	r := f.open(200, "/v1/threads/t/stream")
	r.want("entry 1 message", "entry 2 run.queued")
	line.stall()
	f.claim()
	r.want("entry 3 run.started")
	if got := r.block(); !strings.HasPrefix(got, ": cut off: reader too slow") {
		t.Errorf("got %q, want a comment with the reason", got)
	}
	if got := r.block(); got != "" {
		t.Errorf("got %q after that, want the end", got)
	}
	f.log.wait(t, `"cut":true`)
}

func TestCursorsOfASlowSocketFitIntoTheCloseFrame(t *testing.T) {
	f, line := startStalling(t)
	p := f.dialWithToken()
	const many = 40
	for i := range many {
		f.submit(fmt.Sprintf("t%d", i), "one")
		p.send(`{"op":"subscribe","id":1,"thread":"t%d","after":"2"}`, i)
		p.want(fmt.Sprintf("ack 1 %d", i+1))
	}
	line.stall()
	f.claim() // of t0
	end := p.closed()
	if end.Code != 4408 || len(end.Reason) > 123 || !strings.HasPrefix(end.Reason, "1=3 2=2 3=2") {
		t.Errorf("closed with %v, want the cursor of the first subscription first", end)
	}
}

func TestASocketThatDoesNotReadIsCutOffAndBlocksNoOther(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.WriteTimeout = 300 * time.Millisecond })
	f.submit("t", "one")
	other := f.dialWithToken()
	roomy := f.http
	tight := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		}
		return conn, err
	}}
	defer tight.CloseIdleConnections()
	f.http = tight
	stuck := f.dialWithToken()
	f.http = roomy
	for _, p := range []*peer{stuck, other} {
		p.send(`{"op":"subscribe","id":1,"thread":"t","after":"2"}`)
		p.want("ack 1 1")
	}
	text := strings.Repeat("x", 64<<10)
	for i := range 4 { // more than the connection holds
		f.submit("t", text)
		other.want(fmt.Sprintf("entry 1 %d message", 2*i+3), fmt.Sprintf("entry 1 %d run.queued", 2*i+4))
	}
	f.log.wait(t, `"cut":true`) // stuck is never read
	other.send(`{"op":"ping","id":1}`)
	other.want("pong 1")
}

// TestReadersThatDoNotReadStayWithinTheBacklog has several sockets of one token that do not read,
// and one of another token that does. The share of the first is full long before WriteTimeout.
func TestReadersThatDoNotReadStayWithinTheBacklog(t *testing.T) {
	const share = 512 << 10
	f := start(t, func(o *server.Options) {
		o.Limits.WriteTimeout, o.Limits.Unread, o.Limits.TokenUnread = time.Minute, 4*share, share
	})
	f.submit("t", "one")
	other := f.dial("Authorization: Bearer " + f.createToken("ann", "t", auth.PermissionRead))
	tight := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		}
		return conn, err
	}}
	defer tight.CloseIdleConnections()
	roomy := f.http
	f.http = tight
	stuck := []*peer{f.dialWithToken(), f.dialWithToken(), f.dialWithToken(), f.dialWithToken()}
	f.http = roomy
	for _, p := range append(stuck, other) {
		p.send(`{"op":"subscribe","id":1,"thread":"t","after":"2"}`)
		p.want("ack 1 1")
	}
	text := strings.Repeat("x", 400<<10)
	for i := range 8 { // the texts exceed what the buffers of a connection hold
		f.submit("t", text)
		other.want(fmt.Sprintf("entry 1 %d message", 2*i+3), fmt.Sprintf("entry 1 %d run.queued", 2*i+4))
		if got, err := strconv.ParseFloat(f.metricOf("mailroom_stream_unread_bytes"), 64); err != nil || got > 3*share {
			t.Errorf("%g bytes are unread (%v), of at most one entry of %d or %d", got, err, 2*len(text), share)
		}
	}
	f.log.wait(t, `"cut":true`)
	again := f.dialWithToken() // a reader that was cut off can resume
	again.send(`{"op":"subscribe","id":1,"thread":"t","after":"4"}`)
	again.want("ack 1 1", "entry 1 5 message", "entry 1 6 run.queued")
}

func TestASilentPeerIsDisconnected(t *testing.T) {
	// three intervals are longer than the live peer is ever kept from reading
	f := start(t, func(o *server.Options) { o.Limits.Heartbeat = 250 * time.Millisecond })
	f.submit("t", "one")
	silent, lively := f.dialWithToken(), f.dialWithToken()
	lively.send(`{"op":"subscribe","id":1,"thread":"t","after":"2"}`)
	lively.want("ack 1 1")
	done := make(chan string)
	go func() {
		defer close(done) // even if next fails
		done <- lively.next().String()
	}() // a peer answers pings only while it reads
	f.log.wait(t, `"status":101`) // of the silent peer
	f.submit("t", "two")
	if got := <-done; got != "entry 1 3 message" {
		t.Errorf("the live peer got %q", got)
	}
	if _, _, err := silent.conn.Read(silent.ctx); err == nil || websocket.CloseStatus(err) != -1 {
		t.Errorf("the silent peer: %v, want a broken connection", err)
	}
}
