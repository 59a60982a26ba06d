package pgtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// proxied is a connection through a Proxy.
type proxied struct {
	proxy             *Proxy
	application       string // guarded by the mutex of the proxy
	requests, answers line
	lost              chan struct{} // closed when answers no longer reach the client
	closed            chan struct{} // closed by close
	closing           sync.Once
}

func newProxied(p *Proxy, client, server net.Conn) *proxied {
	c := &proxied{proxy: p, lost: make(chan struct{}), closed: make(chan struct{})}
	c.requests = newLine(c, client, server, func(l Link) bool { return l.HoldRequests })
	c.answers = newLine(c, server, client, func(l Link) bool { return l.HoldAnswers })
	return c
}

// close ends the connection and loses the messages in it.
func (c *proxied) close() {
	c.closing.Do(func() {
		close(c.closed)
		c.requests.from.Close()
		c.requests.to.Close()
	})
}

// line is one direction of a connection.
type line struct {
	of       *proxied
	from, to net.Conn
	held     func(Link) bool
	pieces   chan piece    // sent and not yet forwarded
	drained  chan struct{} // closed when all pieces were forwarded, or the connection ended
}

type piece struct {
	data []byte
	sent time.Time
}

// linePieces bounds the messages on a line. If the line is full, its sender waits.
const linePieces = 256

func newLine(of *proxied, from, to net.Conn, held func(Link) bool) line {
	return line{of: of, from: from, to: to, held: held, pieces: make(chan piece, linePieces), drained: make(chan struct{})}
}

// start forwards pieces until finish is called or the connection ends.
func (l *line) start(all *sync.WaitGroup) {
	all.Go(func() {
		defer close(l.drained)
		for {
			select {
			case p, ok := <-l.pieces:
				if !ok || !l.pass(p) {
					return
				}
			case <-l.of.closed:
				return
			}
		}
	})
}

// pass forwards a piece as soon as the link permits. It returns false if the connection has ended.
func (l *line) pass(p piece) bool {
	for {
		l.of.proxy.mu.Lock()
		application := l.of.application
		l.of.proxy.mu.Unlock()
		link, changed := l.of.proxy.linkOf(application)
		late := time.NewTimer(time.Until(p.sent.Add(link.Delay)))
		due := late.C
		if l.held(link) {
			due = nil
		}
		select {
		case <-due:
			late.Stop()
			_, err := l.to.Write(p.data)
			return err == nil
		case <-changed:
			late.Stop()
		case <-l.of.closed:
			late.Stop()
			return false
		}
	}
}

// send sends a piece, after which the caller must not change it.
func (l *line) send(data []byte) {
	select {
	case l.pieces <- piece{data, time.Now()}:
	case <-l.drained:
	}
}

// finish waits until the line has forwarded everything. After finish, send must not be called.
func (l *line) finish() {
	close(l.pieces)
	<-l.drained
}

// applicationOf returns the application_name in a startup message.
func applicationOf(startup []byte) string {
	_, rest, found := bytes.Cut(startup, []byte("\x00application_name\x00"))
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(string(rest), "\x00")
	return name
}

// message reads one message of the protocol. typ is the number of bytes of its type, which stands before its length.
func message(from io.Reader, typ int) ([]byte, error) {
	head := make([]byte, typ+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[typ:])
	if n < 4 || n > 1<<28 {
		return nil, errors.New("invalid length of a message")
	}
	body := make([]byte, n-4)
	_, err := io.ReadFull(from, body)
	return bytes.Join([][]byte{head, body}, nil), err
}
