package server

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"
)

const (
	// smallFragment is the payload, in bytes, from which on a fragment costs more to send
	// than to take.
	smallFragment = 1 << 10
	// socketFrames and socketBurst bound the control frames and small fragments of one
	// socket in a second and at once, tokenFrames and tokenBurst those of all sockets of
	// a token.
	socketFrames, socketBurst = 100, 500
	tokenFrames, tokenBurst   = 1000, 5000
	// maxFlood is how many bytes are read and dropped of a peer that is told to go.
	maxFlood = 64 << 10
)

var errFlood = errors.New("too many frames")

// frameMeter reads a socket's connection and counts the control frames and the small
// fragments in it: a peer can send millions of them in a second, and each costs a pass
// through the library and often an answer. Whole messages have limits of their own. Once
// the pace is exceeded it hands over nothing more.
type frameMeter struct {
	net.Conn
	// Set once.
	socketLimit *rate.Limiter
	tokenLimits *rateLimiter

	who atomic.Pointer[string] // name of the token; nil until it is known

	// Owned by the reader of the connection: the library lets one in at a time.
	head    [14]byte // of the frame that is read
	have    int      // bytes of head
	payload uint64   // bytes of its payload that are still to come
	flooded bool
	dropped int
}

func newFrameMeter(conn net.Conn, tokens *rateLimiter) *frameMeter {
	return &frameMeter{Conn: conn, socketLimit: rate.NewLimiter(socketFrames, socketBurst), tokenLimits: tokens}
}

// Read reads from the connection. After a flood it drops what comes, so that the peer
// can still be told why its socket ends.
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

// count follows the frames in b (RFC 6455, section 5.2).
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

// headerSize is how long the header is, as far as its first bytes tell.
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

// isMetered tells a control frame or a small fragment from a whole message.
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

// allow reports whether one more frame is within the paces.
func (m *frameMeter) allow(now time.Time) bool {
	if !m.socketLimit.AllowN(now, 1) {
		return false
	}
	who := m.token()
	return who == "" || m.tokenLimits.allow(who, now) == 0
}

// token is the name of whose socket it is, "" if that is not known yet.
func (m *frameMeter) token() string {
	if who := m.who.Load(); who != nil {
		return *who
	}
	return ""
}

// floodError is the end of a socket that sent too many frames.
func floodError() error {
	return &closeError{websocket.StatusPolicyViolation, "too many control frames or fragments"}
}
