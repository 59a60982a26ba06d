package ws

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

	"mailroom/server/internal/request"
)

// frameWriter writes whole frames to a socket, one at a time.
//
// A frame that takes longer than timeout marks the reader as too slow. The write may take twice as
// long, because after a truncated frame no close frame could say why the socket ends.
type frameWriter struct {
	// Set once.
	conn    *websocket.Conn
	raw     net.Conn // the connection of conn, for deadlines
	timeout time.Duration
	end     context.CancelCauseFunc // ends the socket
	done    <-chan struct{}         // closed when the socket ends
	backlog *request.Backlog
	pending *request.Unread
	meter   *frameMeter // knows the name of the reader's token

	writing atomic.Bool // a frame is being written
	closing atomic.Bool // the socket ends: a pending write has closeWriteTime

	mu    sync.Mutex
	buf   bytes.Buffer // owned by mu
	bytes int64        // owned by mu
	err   error        // owned by mu; the error that ended writing
}

// write sends the frame that fill builds, of about size bytes. sent reports whether all of it was
// written. Any error except fill's ends the socket.
func (w *frameWriter) write(size int, fill func(*bytes.Buffer) error) (sent bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return false, w.err
	}
	if !w.backlog.Acquire(w.pending, w.meter.token(), size, w.done) {
		return false, request.ErrReaderGone
	}
	defer w.backlog.Release(w.pending)
	w.buf.Reset()
	w.buf.Grow(size) // a buffer that grows by itself may take twice the size
	defer func() {
		if w.buf.Cap() > request.KeptBuffer {
			w.buf = bytes.Buffer{}
		}
	}()
	if err := fill(&w.buf); err != nil {
		return false, err
	}
	w.writing.Store(true)
	start := time.Now()
	w.deadline(start.Add(2 * w.timeout))
	if w.closing.Load() {
		w.deadline(start.Add(closeWriteTime))
	}
	err = w.conn.Write(context.Background(), websocket.MessageText, w.buf.Bytes())
	w.deadline(time.Time{}) // pings have their own
	w.writing.Store(false)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), err == nil && time.Since(start) > w.timeout:
		w.err = request.ErrTooSlow
	case err != nil:
		w.err = err
	}
	if w.err != nil {
		w.end(w.err)
	}
	if err == nil {
		w.bytes += int64(w.buf.Len())
	}
	return err == nil, w.err
}

// limitWriteTime shortens the deadline of the pending write and of later ones, because the socket
// ends.
func (w *frameWriter) limitWriteTime() {
	w.closing.Store(true)
	if w.writing.Load() {
		w.deadline(time.Now().Add(closeWriteTime))
	}
}

func (w *frameWriter) deadline(at time.Time) {
	_ = w.raw.SetWriteDeadline(at) // if SetWriteDeadline fails, so does the write
}

// written is the number of bytes of frames sent.
func (w *frameWriter) written() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// answer is a frame that answers a client's frame. The fields are in wire order.
type answer struct {
	Op         string          `json:"op"`
	ID         json.RawMessage `json:"id,omitempty"`
	Sub        string          `json:"sub,omitempty"`
	Cursor     string          `json:"cursor,omitempty"`
	Run        string          `json:"run,omitempty"`
	Status     string          `json:"status,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      json.RawMessage `json:"error,omitempty"`
	RetryAfter int             `json:"retry_after,omitempty"` // seconds, as in the header Retry-After
}

func (w *frameWriter) send(a answer) error {
	_, err := w.write(len(a.Result)+len(a.Error), func(b *bytes.Buffer) error {
		// Without HTML escapes an id comes back as the client sent it.
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		return enc.Encode(a)
	})
	return err
}
