package ws

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"mailroom/server/internal/request"
)

// scriptedConn is a connection that reads from Reader.
type scriptedConn struct {
	net.Conn
	io.Reader
}

func (s scriptedConn) Read(b []byte) (int, error) { return s.Reader.Read(b) }

func TestControlFramesAndSmallFragmentsAreCounted(t *testing.T) {
	const mask = "\x00\x00\x00\x00"
	large := strings.Repeat("x", 0x10400)
	for name, c := range map[string]struct {
		frames string
		weigh  int
	}{
		"a ping":                           {"\x89\x80" + mask, 1},
		"a pong with a payload":            {"\x8a\x83" + mask + "abc", 1},
		"a whole message":                  {"\x81\x82" + mask + "{}", 0},
		"a message of two small fragments": {"\x01\x81" + mask + "{" + "\x80\x81" + mask + "}", 2},
		"an empty fragment":                {"\x00\x80" + mask, 1},
		"a large fragment":                 {"\x01\xfe\x04\x00" + mask + large[:0x400], 0},
		"a larger one":                     {"\x00\xff\x00\x00\x00\x00\x00\x01\x04\x00" + mask + large, 0},
		"a payload that looks like a ping": {"\x82\x86" + mask + "\x89\x80" + mask, 0},
	} {
		for _, piece := range []int{1, 3, 1 << 20} {
			m := newFrameMeter(nil, request.NewRates(1, socketBurst))
			m.socketLimit = rate.NewLimiter(1e-9, socketBurst)
			begin := time.Now()
			for b := c.frames + c.frames; b != ""; {
				n := min(piece, len(b))
				m.count([]byte(b[:n]))
				b = b[n:]
			}
			if got := socketBurst - int(m.socketLimit.TokensAt(begin)); got != 2*c.weigh {
				t.Errorf("%s, %d bytes at a time: two of them cost %d, want %d", name, piece, got, 2*c.weigh)
			}
			if m.payload != 0 || m.have != 0 {
				t.Errorf("%s, %d bytes at a time: the meter expects more of the frame", name, piece)
			}
		}
	}
}

func TestAFloodingSocketIsReadNoFurther(t *testing.T) {
	ping := "\x89\x80\x00\x00\x00\x00"
	m := newFrameMeter(scriptedConn{Reader: strings.NewReader(strings.Repeat(ping, 100*socketBurst))},
		request.NewRates(1, 1e6))
	got, err := io.ReadAll(m)
	if err != errFlood || len(got) > 2*socketBurst*len(ping) {
		t.Fatalf("read %d bytes and error %v, want about %d and %v", len(got), err, socketBurst*len(ping), errFlood)
	}
	if more, err := io.ReadAll(m); len(more) > 0 || err != io.ErrUnexpectedEOF {
		t.Errorf("after the flood: %d bytes and %v, want 0 and %v", len(more), err, io.ErrUnexpectedEOF)
	}
	if m.dropped < maxFlood || m.dropped > maxFlood+bytesMinRead {
		t.Errorf("%d bytes were dropped, want %d", m.dropped, maxFlood)
	}
}

// bytesMinRead is the size of io.ReadAll's first read.
const bytesMinRead = 512

func TestSocketsOfATokenShareARateLimit(t *testing.T) {
	tokens, who := request.NewRates(1, socketBurst), "mallory"
	left := socketBurst
	for range 2 {
		m := newFrameMeter(
			scriptedConn{Reader: strings.NewReader(strings.Repeat("\x89\x80\x00\x00\x00\x00", socketBurst*3/4))}, tokens)
		m.who.Store(&who)
		_, err := io.ReadAll(m)
		if left -= socketBurst * 3 / 4; (err != nil) != (left < 0) {
			t.Errorf("with %d frames left to the token: %v", left, err)
		}
	}
	other := "ann"
	m := newFrameMeter(scriptedConn{Reader: strings.NewReader("\x89\x80\x00\x00\x00\x00")}, tokens)
	m.who.Store(&other)
	if _, err := io.ReadAll(m); err != nil {
		t.Errorf("a socket of another token: %v", err)
	}
}
