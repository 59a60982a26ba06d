package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"mailroom/internal/recovery"
)

const (
	// lingerTimeout is how long the rest of a tree may take to leave by itself after
	// the child has ended: a last filter of its output, mostly.
	lingerTimeout = 500 * time.Millisecond
	// drainTimeout is how long a read waits after everybody found has gone, in case
	// somebody who was not found holds the pipe, and pipeSize is the most
	// that can still be in it.
	drainTimeout = time.Second
	pipeSize     = 1 << 20
	// finalEmitTimeout bounds an Emit once the child is being stopped.
	finalEmitTimeout = 10 * time.Second

	pieceSize = 32 << 10
)

// Emit takes a piece of stdout. It is called from Run's goroutine, one piece
// after the other; while it blocks, the child is not counted as silent. Its
// error stops the child, but for ErrNoActivity.
type Emit func(ctx context.Context, piece []byte) error

// ErrNoActivity is what an Emit returns for a piece that it has taken and that is
// no sign of life: the child stays as silent as it was.
var ErrNoActivity = errors.New("no sign of life")

// Exit is how a child ended.
type Exit struct {
	Code      int    // exit status; -1 if a signal ended it
	Signal    string // name of that signal, "" if none
	Duration  time.Duration
	Stderr    []byte          // the last Limits.Stderr bytes, as they came
	Survivors *SurvivorsError // what of the tree could not be ended; nil: nothing is left
}

// Success reports whether the child ended with status 0.
func (e Exit) Success() bool { return e.Code == 0 }

func (e Exit) String() string {
	if e.Signal != "" {
		return "signal: " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Run gives the child its input, closes its stdin, hands on its stdout, and
// returns once its whole tree is gone and its pipes are drained. The error is
// nil if the child ended by itself, whatever its status; else it tells why it
// was stopped: the cause of ctx, an error of emit, or an Err of this package. A
// child that does not read its input does nothing wrong.
//
// It is stopped by INT to every process of its tree, then TERM, then KILL, with
// the grace of Limits after each. What it says meanwhile is still handed on, with a context
// that is not ctx. When it ends by itself, what it leaves running gets a moment
// to end too, then TERM and KILL. Processes that survive KILL, for some seconds,
// are named in the Exit: they are the one thing that Run does not wait for.
func (c *Child) Run(ctx context.Context, input string, emit Emit) (Exit, error) {
	in := NewInput(input)
	in.Close()
	return c.RunWithInput(ctx, in, emit)
}

// RunWithInput is Run with an input that goes on while the child works. The caller
// closes it; when the child has ended it takes nothing more.
func (c *Child) RunWithInput(ctx context.Context, in *Input, emit Emit) (Exit, error) {
	t := c.startPipes(in)
	return c.finish(ctx, t, c.watch(ctx, t, emit), emit)
}

// stream is what goes on over the pipes of a child. Goroutines own the pipes'
// ends; everything else belongs to the goroutine of Run.
type stream struct {
	out    chan []byte   // pieces of stdout; closed at its end
	life   chan struct{} // one slot: there was something on stderr
	stderr *tail         // of the goroutine that reads it, until done
	pipes  sync.WaitGroup
	in     *Input // nil: the child gets none

	got int64 // bytes of stdout so far
}

func (c *Child) startPipes(in *Input) *stream {
	t := &stream{
		out: make(chan []byte), life: make(chan struct{}, 1),
		stderr: &tail{max: c.spec.Limits.Stderr}, in: in,
	}
	if in != nil {
		t.pipes.Go(func() {
			defer recovery.Log(nil, "the input of a program")
			in.pump(c.stdin)
		})
	}
	t.pipes.Go(func() {
		defer recovery.Log(nil, "the output of a program")
		defer close(t.out)
		readPipe(c.stdout, func(b []byte) { t.out <- append([]byte(nil), b...) })
	})
	t.pipes.Go(func() {
		defer recovery.Log(nil, "the errors of a program")
		readPipe(c.stderr, func(b []byte) {
			t.stderr.add(b)
			if c.spec.Limits.StdoutOnly {
				return
			}
			select {
			case t.life <- struct{}{}:
			default: // the one before was not seen yet
			}
		})
	})
	return t
}

// readPipe hands on what comes until the end of the pipe. Its deadline says that the
// tree has gone: then what is in the pipe is the rest, with an end behind it
// unless somebody was not found.
func readPipe(f *os.File, take func([]byte)) {
	buf := make([]byte, pieceSize)
	piece := func() (int, error) {
		n, err := f.Read(buf)
		if n > 0 {
			take(buf[:n])
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

// watch follows the child until it has ended, nil, or must be stopped, why.
func (c *Child) watch(ctx context.Context, t *stream, emit Emit) (why error) {
	lim := c.spec.Limits
	first, late := lim.Start, ErrStart
	if first == 0 {
		first, late = lim.Idle, ErrIdle
	}
	silence, total := newTimer(first), newTimer(lim.Total)
	defer silence.Stop()
	defer total.Stop()
	alive := func() {
		late = ErrIdle
		silence.Stop()
		if lim.Idle > 0 {
			silence.Reset(lim.Idle)
		}
	}
	out := t.out
	for {
		select {
		case b, ok := <-out:
			if !ok {
				out = nil // closed its stdout; it may still do something
				continue
			}
			switch err := c.emitPiece(ctx, t, b, emit); {
			case errors.Is(err, ErrNoActivity):
			case err != nil && ctx.Err() != nil:
				return context.Cause(ctx) // which is why emit failed
			case err != nil:
				return err
			default:
				alive()
			}
		case <-t.life:
			alive()
		case <-c.exited:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-silence.C:
			return late
		case <-total.C:
			return ErrTotal
		}
	}
}

// newTimer makes a timer that never fires if d is 0.
func newTimer(d time.Duration) *time.Timer {
	if d > 0 {
		return time.NewTimer(d)
	}
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// emitPiece gives a piece to emit, up to the limit of output.
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

// finish ends the tree, reads the pipes to their end, and tells how the child
// ended. why is nil if it ended by itself.
func (c *Child) finish(ctx context.Context, t *stream, why error, emit Emit) (Exit, error) {
	stopped := make(chan *SurvivorsError, 1)
	ladder := c.stopStages(why)
	t.pipes.Go(func() {
		defer recovery.Handle(nil, "the end of a program", func(*recovery.Panic) { c.closePipes(t); stopped <- nil })
		left, _ := errors.AsType[*SurvivorsError](c.tree.stop(context.Background(), ladder, c.exited)) // its only error
		if left == nil {
			left = c.endShim()
		}
		c.closePipes(t)
		stopped <- left
	})
	gone := make(chan struct{})
	var closing sync.WaitGroup
	closing.Go(func() {
		defer recovery.Log(nil, "the end of a program")
		defer close(gone)
		t.pipes.Wait()
	})
	out, deaf := t.out, false
	for open := true; open; {
		select {
		case b, ok := <-out:
			if !ok {
				out = nil
				continue
			}
			if deaf {
				continue
			}
			if err := c.emitFinal(ctx, t, b, emit); err != nil && !errors.Is(err, ErrNoActivity) {
				deaf = true
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

// closePipes ends the pipes after the tree has gone. Readers still get all that is
// in them; only somebody who was not found and keeps one open is cut off.
func (c *Child) closePipes(t *stream) {
	_ = c.stdin.Close() // nobody is left to read it; the writer may have closed it before
	if t.in != nil {
		t.in.drop()
	}
	for _, f := range []*os.File{c.stdout, c.stderr} {
		if err := f.SetReadDeadline(time.Now()); err != nil {
			_ = f.Close() // no deadlines here: close it, or its reader might wait for ever
		}
	}
}

// exit reports. left is what could not be ended: the child may be among it, and
// then the goroutine that waits for it stays until the kernel lets it go.
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
