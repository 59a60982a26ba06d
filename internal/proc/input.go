package proc

import (
	"io"
	"sync"
)

// Input queues text for a child's stdin. Write never blocks. If it did, a child that waits until its output is read
// would deadlock with the goroutine that writes its input.
type Input struct {
	mu     sync.Mutex // guards the fields below
	queue  []string
	closed bool
	wake   chan struct{} // one slot: the state changed
}

// NewInput returns an Input that begins with text.
func NewInput(text string) *Input {
	return &Input{queue: []string{text}, wake: make(chan struct{}, 1)}
}

// Write queues text. After Close it does nothing.
func (in *Input) Write(text string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.queue = append(in.queue, text)
		in.notify()
	}
}

// Close closes stdin once the queued text is written.
func (in *Input) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.notify()
}

// drop discards the queue and closes stdin at once.
func (in *Input) drop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queue, in.closed = nil, true
	in.notify()
}

func (in *Input) notify() {
	select {
	case in.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// next waits for the next text. It reports false after Close, when the queue is empty.
func (in *Input) next() (text string, ok bool) {
	for {
		in.mu.Lock()
		if len(in.queue) > 0 {
			text, in.queue = in.queue[0], in.queue[1:]
			in.mu.Unlock()
			return text, true
		}
		closed := in.closed
		in.mu.Unlock()
		if closed {
			return "", false
		}
		<-in.wake
	}
}

// pump writes the queue to the child's stdin until Close is called or a write fails. A write that fails is no error,
// because a child may close its stdin or exit early.
func (in *Input) pump(to io.WriteCloser) {
	for {
		text, ok := in.next()
		if !ok {
			break
		}
		if _, err := io.WriteString(to, text); err != nil {
			break
		}
	}
	_ = to.Close() // the child may have gone
	in.drop()      // discard later writes
}
