package sqlstore

import (
	"context"
	"sync"

	"mailroom"
	"mailroom/store"
)

// Turns let one caller write and a few others read, until they are closed. The turns are channels
// rather than mutexes, so that a context can cancel the wait.
type Turns struct {
	write     chan struct{} // full during a write
	views     chan struct{} // counts the running Views
	closing   chan struct{} // closed by Close
	closeOnce sync.Once
}

// NewTurns returns turns with at most this number of Views at a time.
func NewTurns(views int) *Turns {
	return &Turns{
		write: make(chan struct{}, 1), views: make(chan struct{}, views), closing: make(chan struct{}),
	}
}

// Write waits for the turn to write, which EndWrite ends.
func (t *Turns) Write(ctx context.Context) error {
	if err := t.take(ctx, t.write); err != nil {
		return err
	}
	if t.closed() {
		t.EndWrite()
		return errClosed()
	}
	return nil
}

// EndWrite ends a turn to write.
func (t *Turns) EndWrite() { <-t.write }

// TryWrite takes the turn to write if no write runs or waits, and reports whether it did.
func (t *Turns) TryWrite() bool {
	select {
	case t.write <- struct{}{}:
		return true
	default:
		return false
	}
}

// WaitWrite takes the turn to write behind the writes that wait. It may report false once the turns
// are closed.
func (t *Turns) WaitWrite() bool {
	select {
	case t.write <- struct{}{}:
		return true
	case <-t.closing:
		return false
	}
}

// View waits until one more View may run, which EndView ends.
func (t *Turns) View(ctx context.Context) error {
	if ctx.Err() == nil && t.closed() {
		return errClosed()
	}
	return t.take(ctx, t.views)
}

// EndView ends a View.
func (t *Turns) EndView() { <-t.views }

func (t *Turns) take(ctx context.Context, turn chan struct{}) error {
	if ctx.Err() != nil {
		return Cancelled(ctx)
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return Cancelled(ctx)
	case <-t.closing:
		return errClosed()
	}
}

func (t *Turns) closed() bool {
	select {
	case <-t.closing:
		return true
	default:
		return false
	}
}

// Closing is closed by Close.
func (t *Turns) Closing() <-chan struct{} { return t.closing }

// Close refuses new calls of Write and View, and then calls end, once. A second call waits until the first one has
// called end.
func (t *Turns) Close(end func()) {
	t.closeOnce.Do(func() {
		close(t.closing)
		end()
	})
}

// LastWrite waits for the write that runs, for the end of Close.
func (t *Turns) LastWrite() { t.write <- struct{}{} }

// LastViews waits for the Views that run, for the end of Close.
func (t *Turns) LastViews() {
	for range cap(t.views) {
		t.views <- struct{}{}
	}
}

// Idle holds connections that nothing uses. The one that was used last goes first: its cache is warm
// and its statements are prepared.
type Idle[C any] struct {
	mu   sync.Mutex
	list []C // guarded by mu
}

// Take returns a connection, and false without one.
func (i *Idle[C]) Take() (c C, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := len(i.list) - 1
	if last < 0 {
		return c, false
	}
	c = i.list[last]
	i.list = i.list[:last]
	return c, true
}

// Give adds a connection.
func (i *Idle[C]) Give(c C) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, c)
}

// Cancelled is the refusal of a call whose context ended.
func Cancelled(ctx context.Context) *mailroom.Error {
	return &mailroom.Error{
		Code: mailroom.CodeUnavailable, Message: "gave up waiting for the database", Cause: context.Cause(ctx),
	}
}

func errClosed() *mailroom.Error {
	return &mailroom.Error{
		Code: mailroom.CodeUnavailable, Message: "the store accepts no more reads or writes", Cause: store.ErrClosed,
	}
}
