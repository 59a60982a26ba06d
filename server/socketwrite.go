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

// errTooSlow ends a reader that does not read fast enough.
var errTooSlow = errors.New("the reader is too slow")

// keptBuffer is the size, in bytes, up to which a reader's buffer is reused.
const keptBuffer = 16 << 10

// frameWriter writes whole frames to a socket, one at a time.
//
// A frame that takes longer than timeout marks the reader as too slow. The write may take twice as
// long, because after a truncated frame no close frame could say why the socket ends.
type frameWriter struct {
	// Set once.
	conn    *websocket.Conn
	raw     net.Conn // the connection of conn, for deadlines
	timeout time.Duration
	end     context.CancelCauseFunc // of the socket
	done    <-chan struct{}         // closed when the socket ends
	backlog *backlog
	pending *backlogEntry
	meter   *frameMeter // has the token's name

	writing atomic.Bool // a frame is being written
	closing atomic.Bool // the socket ends: a pending write has closeWriteTime

	mu    sync.Mutex
	buf   bytes.Buffer // owned by mu
	bytes int64        // owned by mu
	err   error        // owned by mu; the error that ended writing
}

// errReaderGone is returned if a reader ends before there is room for its next frame or event.
var errReaderGone = errors.New("the socket has ended")

// write sends the frame that fill builds, of about size bytes. sent reports whether all of it was
// written. Any error except fill's ends the socket.
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

// limitWriteTime shortens the deadline of the pending write and of later ones, because the socket
// ends.
func (o *frameWriter) limitWriteTime() {
	o.closing.Store(true)
	if o.writing.Load() {
		o.deadline(time.Now().Add(closeWriteTime))
	}
}

func (o *frameWriter) deadline(at time.Time) {
	_ = o.raw.SetWriteDeadline(at) // if it fails, so does the write
}

// written is the number of bytes of frames sent.
func (o *frameWriter) written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// answer is a frame that answers a client's frame. The fields are in wire order.
type answer struct {
	Op         string          `json:"op"`
	ID         json.RawMessage `json:"id,omitempty"`
	Sub        string          `json:"sub,omitempty"`
	Run        string          `json:"run,omitempty"`
	Status     string          `json:"status,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      json.RawMessage `json:"error,omitempty"`
	RetryAfter int             `json:"retry_after,omitempty"` // seconds, as in the header Retry-After
}

func (o *frameWriter) send(a answer) error {
	_, err := o.write(len(a.Result)+len(a.Error), func(b *bytes.Buffer) error {
		// Without HTML escapes an id comes back as the client sent it.
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		return enc.Encode(a)
	})
	return err
}
