package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mailroom/internal/recovery"
)

const (
	// lingerTimeout is how long the descendants of a child may run after it has exited, such as the
	// last filter of a pipeline.
	lingerTimeout = 500 * time.Millisecond
	// drainTimeout bounds a read after the tree has ended, in case a process that
	// was not found holds the pipe open.
	drainTimeout = time.Second
	// pipeSize is the most that a pipe can hold, in bytes.
	pipeSize = 1 << 20
	// finalEmitTimeout bounds one call of Emit while the child is being stopped.
	finalEmitTimeout = 10 * time.Second

	pieceSize = 32 << 10
)

// Emit receives stdout in chunks. Run calls it from its own goroutine, one chunk at
// a time; the idle timer stands still while Emit blocks. An error other than
// ErrNoActivity stops the child.
type Emit func(ctx context.Context, piece []byte) error

// ErrNoActivity is returned by Emit for a chunk that it accepted but that must not
// reset the start and idle timers.
var ErrNoActivity = errors.New("output without activity")

// Exit describes how a child ended.
type Exit struct {
	Code      int    // exit status; -1: killed by a signal
	Signal    string // name of that signal, "" if none
	Duration  time.Duration
	Stderr    []byte          // last Limits.Stderr bytes of stderr, unchanged
	Survivors *SurvivorsError // processes of the tree that could not be stopped; nil: none
}

// Success reports whether the child exited with status 0.
func (e Exit) Success() bool { return e.Code == 0 }

func (e Exit) String() string {
	if e.Signal != "" {
		return "signal: " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Run writes input to the child's stdin, closes it, passes stdout to emit, and
// returns once the whole tree has ended and the pipes are drained. The error is nil
// if the child exited by itself, whatever its status. Otherwise it is the reason for
// the stop: the cause of ctx, an error of emit, or an Err of this package. A child
// need not read its input.
//
// To stop a child, Run sends INT to every process of the tree, then TERM, then KILL,
// with the grace periods of Limits. It still passes output to emit, with a context
// that is not canceled with ctx. When the child exits by itself, the rest of its tree
// gets a short time to end, then TERM and KILL. Run does not wait for processes that
// survive KILL for some seconds; Exit lists them.
func (c *Child) Run(ctx context.Context, input string, emit Emit) (Exit, error) {
	in := NewInput(input)
	in.Close()
	return c.RunWithInput(ctx, in, emit)
}

// RunWithInput is Run with an input that the caller writes to while the child runs,
// and closes. Input written after the child's exit is discarded.
func (c *Child) RunWithInput(ctx context.Context, in *Input, emit Emit) (Exit, error) {
	t := c.startPipes(in)
	return c.finish(ctx, t, c.watch(ctx, t, emit), emit)
}

// stream is the data exchange with a child. Goroutines own the ends of the pipes;
// everything else belongs to the goroutine of Run.
type stream struct {
	out    chan []byte   // chunks of stdout; closed at its end
	read   atomic.Int64  // chunks of stdout that were read and not yet received from out
	life   chan struct{} // one slot: output on stderr
	stderr *tail         // owned by the goroutine that reads stderr, until it ends
	pipes  sync.WaitGroup
	in     *Input // input of the child; nil: no input

	got int64 // bytes of stdout so far
}

func (c *Child) startPipes(in *Input) *stream {
	t := &stream{
		out: make(chan []byte), life: make(chan struct{}, 1),
		stderr: &tail{max: c.spec.Limits.Stderr}, in: in,
	}
	if in != nil {
		t.pipes.Go(func() {
			defer recovery.Log(nil, "program stdin")
			in.pump(c.stdin)
		})
	}
	t.pipes.Go(func() {
		defer recovery.Log(nil, "program stdout")
		defer close(t.out)
		readPipe(c.stdout, func(b []byte) {
			t.read.Add(1)
			t.out <- append([]byte(nil), b...)
		})
	})
	t.pipes.Go(func() {
		defer recovery.Log(nil, "program stderr")
		readPipe(c.stderr, func(b []byte) {
			t.stderr.add(b)
			if c.spec.Limits.StdoutOnly {
				return
			}
			select {
			case t.life <- struct{}{}:
			default: // a wake-up is pending already
			}
		})
	})
	return t
}

// readPipe passes everything up to the end of the pipe to onData. An expired read
// deadline means that the tree has ended. readPipe then reads what is left in the
// pipe, with a timeout: a process that was not found may keep the pipe open.
func readPipe(f *os.File, onData func([]byte)) {
	buf := make([]byte, pieceSize)
	piece := func() (int, error) {
		n, err := f.Read(buf)
		if n > 0 {
			onData(buf[:n])
		}
		return n, err
	}
	var err error
	for err == nil {
		_, err = piece()
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	for rest := pipeSize; rest > 0; {
		if err := f.SetReadDeadline(time.Now().Add(drainTimeout)); err != nil {
			return
		}
		n, err := piece()
		if err != nil {
			return
		}
		rest -= n
	}
}

// watch waits until the child exits and returns nil, or returns why it must be stopped.
func (c *Child) watch(ctx context.Context, t *stream, emit Emit) (why error) {
	silence, total := newSilence(c.spec.Limits, c.processorTime), newTimer(c.spec.Limits.Total)
	defer silence.timer.Stop()
	defer total.Stop()
	out := t.out
	for {
		select {
		case b, ok := <-out:
			if !ok {
				out = nil // stdout is closed; the child may still work
				if silence.expired {
					if why := silence.judge(); why != nil {
						return why
					}
				}
				continue
			}
			t.read.Add(-1)
			switch err := c.emitPiece(ctx, t, b, emit); {
			case errors.Is(err, ErrNoActivity) && silence.expired:
				if why := silence.judge(); why != nil {
					return why
				}
			case errors.Is(err, ErrNoActivity):
			case err != nil && ctx.Err() != nil:
				return context.Cause(ctx) // emit failed because ctx ended
			case err != nil:
				return err
			default:
				silence.end()
			}
		case <-t.life:
			silence.end()
		case <-c.exited:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-silence.timer.C:
			if c.hasUnread(t) {
				silence.expired = true
			} else if why := silence.judge(); why != nil {
				return why
			}
		case <-total.C:
			return ErrTotal
		}
	}
}

// hasUnread reports whether the child has written output that was not handled yet. A child with such output is not
// silent. The timer can fire all the same: after this process got no processor time or was stopped, both the timer
// and the output are ready, and select takes either.
func (c *Child) hasUnread(t *stream) bool {
	if t.read.Load() > 0 || unread(c.stdout) {
		return true
	}
	return !c.spec.Limits.StdoutOnly && (len(t.life) > 0 || unread(c.stderr))
}

// newTimer returns a timer of duration d. It never fires if d is 0.
func newTimer(d time.Duration) *time.Timer {
	if d > 0 {
		return time.NewTimer(d)
	}
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// emitPiece passes b to emit, cut at the output limit. It returns ErrOutput if b exceeds it.
func (c *Child) emitPiece(ctx context.Context, t *stream, b []byte, emit Emit) error {
	room := int64(len(b))
	if c.spec.Limits.Output > 0 {
		room = min(room, c.spec.Limits.Output-t.got)
	}
	t.got += room
	var err error
	if room > 0 {
		err = emit(ctx, b[:room])
	}
	if room < int64(len(b)) && (err == nil || errors.Is(err, ErrNoActivity)) {
		err = ErrOutput
	}
	return err
}

// finish stops the tree, reads the pipes to their end, and returns how the child ended. why is nil if the child
// exited by itself.
func (c *Child) finish(ctx context.Context, t *stream, why error, emit Emit) (Exit, error) {
	stopped := make(chan *SurvivorsError, 1)
	ladder := c.stopStages(why)
	t.pipes.Go(func() {
		defer recovery.Handle(nil, "program stop", func(*recovery.Panic) { c.closePipes(t); stopped <- nil })
		// stop returns no other kind of error here.
		left, _ := errors.AsType[*SurvivorsError](c.tree.stop(context.Background(), ladder, c.exited))
		if left == nil {
			left = c.endShim()
		}
		c.closePipes(t)
		stopped <- left
	})
	gone := make(chan struct{})
	var closing sync.WaitGroup
	closing.Go(func() {
		defer recovery.Log(nil, "program stop")
		defer close(gone)
		t.pipes.Wait()
	})
	out, emitFailed := t.out, false
	for open := true; open; {
		select {
		case b, ok := <-out:
			if !ok {
				out = nil
				continue
			}
			if emitFailed {
				continue
			}
			if err := c.emitFinal(ctx, t, b, emit); err != nil && !errors.Is(err, ErrNoActivity) {
				emitFailed = true
				if why == nil {
					why = err
				}
			}
		case <-gone:
			open = false
		}
	}
	closing.Wait()
	closeAll([]*os.File{c.stdin, c.stdout, c.stderr})
	return c.exit(t, why, <-stopped)
}

func (c *Child) emitFinal(ctx context.Context, t *stream, b []byte, emit Emit) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalEmitTimeout)
	defer cancel()
	return c.emitPiece(ctx, t, b, emit)
}

// closePipes closes stdin and sets the read deadlines after the tree has ended. The
// readers still drain the pipes; see readPipe.
func (c *Child) closePipes(t *stream) {
	_ = c.stdin.Close() // no reader is left; the writer may have closed it before
	if t.in != nil {
		t.in.drop()
	}
	for _, f := range []*os.File{c.stdout, c.stderr} {
		if err := f.SetReadDeadline(time.Now()); err != nil {
			_ = f.Close() // pipes without deadlines: close it, or its reader might block forever
		}
	}
}

// exit builds the Exit. If the child itself is among the survivors in left, its
// owner goroutine stays until the kernel ends the process.
func (c *Child) exit(t *stream, why error, left *SurvivorsError) (Exit, error) {
	e := Exit{Code: -1, Stderr: t.stderr.bytes(), Duration: time.Since(c.started), Survivors: left}
	if left != nil && slices.Contains(left.PIDs, c.id.PID) {
		return e, why
	}
	c.owner.Wait()
	e.Duration = c.ended.Sub(c.started)
	if _, failed := errors.AsType[*exec.ExitError](c.waitErr); c.waitErr != nil && !failed {
		return e, errors.Join(why, fmt.Errorf("wait for the child: %w", c.waitErr))
	}
	e.Code, e.Signal = c.code, c.signal
	return e, why
}
