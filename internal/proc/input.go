package proc

import (
	"io"
	"sync"
)

// Input is what goes to a child's stdin. Nobody who writes to it waits for the
// child, which may itself be waiting for what it writes to be read.
type Input struct {
	mu     sync.Mutex // guards what follows
	queue  []string
	closed bool
	wake   chan struct{} // one slot: there is something to do
}

// NewInput returns one that begins with text.
func NewInput(text string) *Input {
	return &Input{queue: []string{text}, wake: make(chan struct{}, 1)}
}

// Write adds text. After Close it does nothing.
func (in *Input) Write(text string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.queue = append(in.queue, text)
		in.notify()
	}
}

// Close closes stdin behind what was written.
func (in *Input) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.notify()
}

// drop closes stdin at once: nobody reads it any more.
func (in *Input) drop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queue, in.closed = nil, true
	in.notify()
}

func (in *Input) notify() {
	select {
	case in.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// next waits for text, and reports false behind the last of it.
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

// pump writes until the end, or until the child takes no more: one that closes
// its stdin, or ends, does nothing wrong, and what became of it its exit tells.
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
	_ = to.Close() // as above
	in.drop()      // whatever comes now is for nobody
}
