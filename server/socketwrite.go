package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// errTooSlow ends a reader that does not take what it is sent.
var errTooSlow = errors.New("the reader is too slow")

// keptBuffer is how large, in bytes, the buffer of a reader stays between two frames.
const keptBuffer = 16 << 10

// frameWriter writes frames to a socket, whole and one at a time.
//
// A frame that is not taken within timeout marks the reader as too slow. It has
// as much time again, because a frame that broke off in the middle leaves no room
// for the one that says why the socket is closed.
type frameWriter struct {
	// Set once.
	conn    *websocket.Conn
	raw     net.Conn // under conn, for deadlines
	timeout time.Duration
	end     context.CancelCauseFunc // of the socket
	done    <-chan struct{}         // closed when the socket ends
	backlog *backlog
	pending *backlogEntry
	meter   *frameMeter // knows whose socket it is

	writing atomic.Bool // a frame is under way
	closing atomic.Bool // the socket ends: whoever still writes has hurryTime

	mu    sync.Mutex
	buf   bytes.Buffer // owned by mu
	bytes int64        // owned by mu
	err   error        // owned by mu; why nothing is written any more
}

// errReaderGone: the socket ended before there was room for a frame.
var errReaderGone = errors.New("the socket has ended")

// write sends the frame, of about size bytes, that fill makes. sent: the reader was given
// all of it. An error other than fill's ends the socket.
func (o *frameWriter) write(size int, fill func(*bytes.Buffer) error) (sent bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return false, o.err
	}
	if !o.backlog.acquire(o.pending, o.meter.token(), size, o.done) {
		return false, errReaderGone
	}
	defer o.backlog.release(o.pending)
	o.buf.Reset()
	defer func() {
		if o.buf.Cap() > keptBuffer {
			o.buf = bytes.Buffer{}
		}
	}()
	if err := fill(&o.buf); err != nil {
		return false, err
	}
	o.writing.Store(true)
	start := time.Now()
	o.deadline(start.Add(2 * o.timeout))
	if o.closing.Load() {
		o.deadline(start.Add(closeWriteTime))
	}
	err = o.conn.Write(context.Background(), websocket.MessageText, o.buf.Bytes())
	o.deadline(time.Time{}) // pings have their own
	o.writing.Store(false)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), err == nil && time.Since(start) > o.timeout:
		o.err = errTooSlow
	case err != nil:
		o.err = err
	}
	if o.err != nil {
		o.end(o.err)
	}
	if err == nil {
		o.bytes += int64(o.buf.Len())
	}
	return err == nil, o.err
}

// limitWriteTime bounds the write that is under way, and those to come.
func (o *frameWriter) limitWriteTime() {
	o.closing.Store(true)
	if o.writing.Load() {
		o.deadline(time.Now().Add(closeWriteTime))
	}
}

func (o *frameWriter) deadline(at time.Time) {
	_ = o.raw.SetWriteDeadline(at) // a connection that is closed fails the write
}

// written is how many bytes of frames were taken.
func (o *frameWriter) written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// answer is a frame from the server that answers one, in the order of its
// members.
type answer struct {
	Op         string          `json:"op"`
	ID         json.RawMessage `json:"id,omitempty"`
	Sub        string          `json:"sub,omitempty"`
	Run        string          `json:"run,omitempty"`
	Status     string          `json:"status,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      json.RawMessage `json:"error,omitempty"`
	RetryAfter int             `json:"retry_after,omitempty"` // seconds, as the header has it
}

func (o *frameWriter) send(a answer) error {
	_, err := o.write(len(a.Result)+len(a.Error), func(b *bytes.Buffer) error {
		// Nothing is escaped that need not be: an id comes back as it was given.
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		return enc.Encode(a)
	})
	return err
}
