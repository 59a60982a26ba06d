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
	"mailroom/server"
)

// slowLine is a listener whose connections take a long time for one write, once
// each since they were told to.
type slowLine struct {
	net.Listener
	late time.Duration

	mu    sync.Mutex
	conns []*slowConn // owned by mu
}

func (l *slowLine) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &slowConn{Conn: conn, late: l.late}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return c, nil
}

// stall makes the next write of each connection late.
func (l *slowLine) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.mu.Lock()
		c.stalled = true
		c.mu.Unlock()
	}
}

type slowConn struct {
	net.Conn
	late time.Duration

	mu      sync.Mutex
	stalled bool // owned by mu
}

// SetWriteDeadline does nothing: a write that is late gets through in the end.
func (c *slowConn) SetWriteDeadline(time.Time) error { return nil }

func (c *slowConn) Write(b []byte) (int, error) {
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

// slowStart is start with a line that can stall, for longer than the server has
// patience.
func slowStart(t *testing.T) (*fixture, *slowLine) {
	t.Helper()
	line := &slowLine{late: 150 * time.Millisecond}
	f := startOn(t, func(ln net.Listener) net.Listener { line.Listener = ln; return line }, func(o *server.Options) {
		o.WriteTimeout = 100 * time.Millisecond
	})
	return f, line
}

func TestASlowSocketIsClosedWithTheCursorsOfItsSubscriptions(t *testing.T) {
	f, line := slowStart(t)
	f.submit("t", "one")
	f.submit("u", "two")
	p := f.join()
	p.say(`{"op":"subscribe","id":1,"thread":"t","after":"1"}`)
	p.want("ack 1 1", "entry 1 2 run.queued")
	p.say(`{"op":"subscribe","id":2,"thread":"u","after":"1"}`)
	p.want("ack 2 2", "entry 2 2 run.queued")
	p.say(`{"op":"subscribe","id":3}`)
	p.want("ack 3 3")
	p.say(`{"op":"unsubscribe","id":4,"sub":"3"}`)
	p.want("ack 4 3")
	line.stall()
	if _, err := f.ledger.Submit(t.Context(), mailroom.Submit{
		Thread: "u", Messages: []mailroom.NewMessage{{Parts: mailroom.Text("three")}}, Owner: mailroom.Operator, Sender: mailroom.Operator, Agent: "echo",
	}); err != nil {
		t.Fatal(err)
	}
	p.want("entry 2 3 message") // what was late arrives all the same
	if got, want := p.closed(), (websocket.CloseError{Code: 4408, Reason: "2=3 1=2"}); got != want {
		t.Errorf("closed with %v, want %v", got, want)
	}
	f.log.wait(t, `"status":101`)
	if !strings.Contains(f.log.String(), `"cut":true`) {
		t.Errorf("the log does not say that it was cut off: %s", f.log)
	}
	again := f.join()
	again.say(`{"op":"subscribe","id":1,"thread":"u","after":"3"}`)
	again.want("ack 1 1", "entry 1 4 run.queued")
}

func TestASlowReaderOfEventsIsToldWhyItsStreamEnds(t *testing.T) {
	f, line := slowStart(t)
	f.submit("t", "one")
	r := f.open(200, "/v1/threads/t/stream")
	r.want("entry 1 message", "entry 2 run.queued")
	line.stall()
	f.claim()
	r.want("entry 3 run.started")
	if got := r.block(); !strings.HasPrefix(got, ": cut off: reader too slow") {
		t.Errorf("got %q, want a comment that says why", got)
	}
	if got := r.block(); got != "" {
		t.Errorf("got %q after that, want the end", got)
	}
	f.log.wait(t, `"cut":true`)
}

func TestManyCursorsOfASlowSocketAreToldAsFarAsTheyFit(t *testing.T) {
	f, line := slowStart(t)
	p := f.join()
	const many = 40
	for i := range many {
		f.submit(fmt.Sprintf("t%d", i), "one")
		p.say(`{"op":"subscribe","id":1,"thread":"t%d","after":"2"}`, i)
		p.want(fmt.Sprintf("ack 1 %d", i+1))
	}
	line.stall()
	f.claim() // of t0
	end := p.closed()
	if end.Code != 4408 || len(end.Reason) > 123 || !strings.HasPrefix(end.Reason, "1=3 2=2 3=2") {
		t.Errorf("closed with %v, want the cursor of the first subscription first", end)
	}
}

func TestASocketThatTakesNothingIsCutOffAndHoldsUpNobody(t *testing.T) {
	f := start(t, func(o *server.Options) { o.WriteTimeout = 300 * time.Millisecond })
	f.submit("t", "one")
	other := f.join()
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
	stuck := f.join()
	f.http = roomy
	for _, p := range []*peer{stuck, other} {
		p.say(`{"op":"subscribe","id":1,"thread":"t","after":"2"}`)
		p.want("ack 1 1")
	}
	text := strings.Repeat("x", 64<<10)
	for i := range 4 { // more than the connection holds
		f.submit("t", text)
		other.want(fmt.Sprintf("entry 1 %d message", 2*i+3), fmt.Sprintf("entry 1 %d run.queued", 2*i+4))
	}
	f.log.wait(t, `"cut":true`) // stuck is never read
	other.say(`{"op":"ping","id":1}`)
	other.want("pong 1")
}

// TestReadersThatTakeNothingStayUnderTheBound has many sockets of one token that read
// nothing, beside one of another token that reads: their share is full long before they
// would be cut off for their time.
func TestReadersThatTakeNothingStayUnderTheBound(t *testing.T) {
	const share = 512 << 10
	f := start(t, func(o *server.Options) { o.WriteTimeout, o.Unread, o.TokenUnread = time.Minute, 4*share, share })
	f.submit("t", "one")
	other := f.dial("Authorization: Bearer " + f.token("ann", "t", mailroom.PermissionRead))
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
	stuck := []*peer{f.join(), f.join(), f.join(), f.join()}
	f.http = roomy
	for _, p := range append(stuck, other) {
		p.say(`{"op":"subscribe","id":1,"thread":"t","after":"2"}`)
		p.want("ack 1 1")
	}
	text := strings.Repeat("x", 400<<10)
	for i := range 8 { // more than each connection holds
		f.submit("t", text)
		other.want(fmt.Sprintf("entry 1 %d message", 2*i+3), fmt.Sprintf("entry 1 %d run.queued", 2*i+4))
		if got, err := strconv.ParseFloat(f.metricOf("mailroom_stream_unread_bytes"), 64); err != nil || got > 3*share {
			t.Errorf("%g bytes are unread (%v), of at most one entry of %d or %d", got, err, 2*len(text), share)
		}
	}
	f.log.wait(t, `"cut":true`)
	again := f.join() // who was cut off goes on from where it was
	again.say(`{"op":"subscribe","id":1,"thread":"t","after":"4"}`)
	again.want("ack 1 1", "entry 1 5 message", "entry 1 6 run.queued")
}

func TestASilentPeerIsFound(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Heartbeat = 250 * time.Millisecond }) // three of them are longer than the lively one is ever kept from reading
	f.submit("t", "one")
	silent, lively := f.join(), f.join()
	lively.say(`{"op":"subscribe","id":1,"thread":"t","after":"2"}`)
	lively.want("ack 1 1")
	done := make(chan string)
	go func() {
		defer close(done) // also if it hears nothing
		done <- lively.hear().String()
	}() // it answers pings only while it reads
	f.log.wait(t, `"status":101`) // of the silent one
	f.submit("t", "two")
	if got := <-done; got != "entry 1 3 message" {
		t.Errorf("the lively one heard %q", got)
	}
	if _, _, err := silent.conn.Read(silent.ctx); err == nil || websocket.CloseStatus(err) != -1 {
		t.Errorf("the silent one: %v, want a connection that broke", err)
	}
}
