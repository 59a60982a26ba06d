package ws

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"mailroom/server/internal/request"
)

const (
	// smallFragment is the payload size, in bytes, below which a fragment costs the server more
	// than its sender.
	smallFragment = 1 << 10
	// socketFrames and socketBurst are the rate per second and the burst of control frames and
	// small fragments on one socket, tokenFrames and tokenBurst the same for all sockets of a
	// token.
	socketFrames, socketBurst = 100, 500
	tokenFrames, tokenBurst   = 1000, 5000
	// maxFlood is how many bytes of a flooding peer are discarded while the close frame is sent.
	maxFlood = 64 << 10
)

var errFlood = errors.New("too many frames")

// frameMeter wraps a socket's connection and counts control frames and small fragments: a peer can
// send millions per second, and each costs a pass through the library and often a response. Whole
// messages have limits of their own. Above the rate, Read fails.
type frameMeter struct {
	net.Conn
	// Set once.
	socketLimit *rate.Limiter
	tokenLimits *request.Rates

	who atomic.Pointer[string] // name of the token; nil until authenticated

	// Owned by the connection's reader; the library allows one at a time.
	head    [14]byte // header of the current frame
	have    int      // bytes of head
	payload uint64   // payload bytes still to come
	flooded bool
	dropped int
}

func newFrameMeter(conn net.Conn, tokens *request.Rates) *frameMeter {
	return &frameMeter{Conn: conn, socketLimit: rate.NewLimiter(socketFrames, socketBurst), tokenLimits: tokens}
}

// Read reads from the connection. After a flood it discards input, so that the close frame can
// still reach the peer.
func (m *frameMeter) Read(b []byte) (int, error) {
	for m.flooded && m.dropped < maxFlood {
		n, err := m.Conn.Read(b)
		m.dropped += n
		if err != nil {
			return 0, err
		}
	}
	if m.flooded {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := m.Conn.Read(b)
	if m.count(b[:n]); m.flooded {
		return 0, errFlood
	}
	return n, err
}

// count parses the frame headers in b (RFC 6455, section 5.2).
func (m *frameMeter) count(b []byte) {
	for len(b) > 0 && !m.flooded {
		if m.payload > 0 {
			skip := min(m.payload, uint64(len(b)))
			b, m.payload = b[skip:], m.payload-skip
			continue
		}
		n := copy(m.head[m.have:m.headerSize()], b)
		b, m.have = b[n:], m.have+n
		if m.have < 2 || m.have < m.headerSize() {
			continue
		}
		m.payload, m.have = m.payloadSize(), 0
		if m.isMetered() && !m.allow(time.Now()) {
			m.flooded = true
		}
	}
}

// headerSize is the length of the header, as far as the bytes read so far determine it.
func (m *frameMeter) headerSize() int {
	if m.have < 2 {
		return 2
	}
	size := 2
	switch m.head[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if m.head[1]&0x80 != 0 { // masked
		size += 4
	}
	return size
}

// payloadSize is the length of the payload.
func (m *frameMeter) payloadSize() uint64 {
	switch short := m.head[1] & 0x7f; short {
	case 126:
		return uint64(binary.BigEndian.Uint16(m.head[2:]))
	case 127:
		return binary.BigEndian.Uint64(m.head[2:])
	default:
		return uint64(short)
	}
}

// isMetered reports whether the frame is a control frame or a small fragment.
func (m *frameMeter) isMetered() bool {
	const fin, control, continuation = 0x80, 0x08, 0
	first := m.head[0]
	switch {
	case first&control != 0:
		return true
	case first&fin != 0 && first&0x0f != continuation:
		return false
	}
	return m.payload < smallFragment
}

// allow counts one frame and reports whether it is within the limits.
func (m *frameMeter) allow(now time.Time) bool {
	if !m.socketLimit.AllowN(now, 1) {
		return false
	}
	who := m.token()
	return who == "" || m.tokenLimits.Allow(who, now) == 0
}

// token is the name of the client's token, "" until authenticated.
func (m *frameMeter) token() string {
	if who := m.who.Load(); who != nil {
		return *who
	}
	return ""
}

// floodError closes a socket that sent too many frames.
func floodError() error {
	return &closeError{websocket.StatusPolicyViolation, "too many control frames or fragments"}
}
