// Package proc starts a child process, talks to it, and leaves nothing of it
// behind: not when it is stopped, not when it ends by itself and its own
// children do not, and not when we die before it.
//
// What a child started is its tree: its process group and session, its
// descendants, and any process that carries its mark in the environment, which
// is how those are found that left the group and lost their parent. A process
// that did all three, clear its environment, start a session and be orphaned
// before it was looked for, is found only if the child is isolated: then orphans
// become children of its shim.
//
// On Linux processes are told apart by pid and start time, so a pid that was
// used again is never signalled. On other Unix systems the tree is the process
// group alone, a child outlives a parent that was killed, and what is left of
// an earlier life is not found.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"mailroom/internal/recovery"
)

// ID names one process for good, also after its pid was given to another.
type ID struct {
	PID       int    `json:"pid"`
	Group     int    `json:"group"`               // its process group, led by itself
	Start     uint64 `json:"start,omitempty"`     // Linux: clock ticks from the boot to its start
	Boot      string `json:"boot,omitempty"`      // Linux: id of the boot
	Namespace string `json:"namespace,omitempty"` // Linux: the pid namespace in which PID counts
	Host      string `json:"host"`
}

// Belongs tells by its environment whether a process is of a tree.
type Belongs func(lookup func(name string) (value string, ok bool)) bool

// Spec describes a child.
type Spec struct {
	Command []string // argument vector, never a shell's line; [0] is found by our PATH
	Dir     string   // working directory; "" is ours
	Env     []string // its whole environment, NAME=VALUE, the last of a name counts
	Belongs Belongs  // recognises the mark in Env; nil: there is none
	Limits  Limits
	// Isolation keeps it apart; nil: it may do what we may, as the same user.
	Isolation *Isolation
	// Urgent tells of a reason to stop, a context's cause or an Emit's error,
	// that leaves no time to ask: the tree is killed at once. nil: none does.
	Urgent func(why error) bool
}

// Limits bound what a child may take. 0 is no bound.
type Limits struct {
	Start  time.Duration // until the first sign of life, a piece of stdout or stderr
	Idle   time.Duration // between two of them; before the first too if Start is 0
	Total  time.Duration // from Run to the child's exit
	Output int64         // bytes of stdout
	Stderr int           // bytes of stderr's end that are kept
	// StdoutOnly says that stderr is no sign of life: of a child that only
	// complains there.
	StdoutOnly bool

	Interrupt time.Duration // from INT to TERM when it is stopped
	Terminate time.Duration // from TERM to KILL
}

// Why a child was stopped before it ended by itself, beside the causes of a
// context and the errors of an Emit.
var (
	ErrStart  = errors.New("no sign of life in time")
	ErrIdle   = errors.New("silent for too long")
	ErrTotal  = errors.New("took too long")
	ErrOutput = errors.New("too much output")
)

// Child is a started process. Run, RunWithInput or Kill must be called, once, to its
// end.
type Child struct {
	// Set by Start, then only read.
	spec                  Spec
	id                    ID
	started               time.Time
	stdin, stdout, stderr *os.File // our ends

	// Used by the goroutine that stops the tree.
	tree *tree

	// Set by the goroutine that owns the process, before it closes exited.
	code    int    // exit status, -1 if a signal ended it
	signal  string // name of that signal
	waitErr error
	ended   time.Time

	exited chan struct{}
	reaped chan struct{} // the process named by id was; with a shim later than exited
	owner  sync.WaitGroup
}

// Start starts a child, which waits for its input if it reads one. Its errors
// are those of the system, [exec.ErrNotFound], [fs.ErrNotExist],
// [fs.ErrPermission] and others, and name nothing but the program and Dir.
func Start(spec Spec) (*Child, error) {
	if spec.Dir != "" {
		// A folder that is missing would look like a missing program.
		info, err := os.Stat(spec.Dir)
		if err != nil {
			return nil, fmt.Errorf("working directory: %w", err)
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("working directory: %w", &fs.PathError{Op: "chdir", Path: spec.Dir, Err: syscall.ENOTDIR})
		}
	}
	cmd := exec.Command(spec.Command[0], spec.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = spec.Dir, spec.Env, attributes()
	if spec.Env == nil {
		cmd.Env = []string{} // nil would hand on ours
	}
	c := &Child{spec: spec, exited: make(chan struct{}), reaped: make(chan struct{})}
	theirs, err := c.openPipes(cmd)
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	own := c.runOwner
	if spec.Isolation != nil {
		own = c.runShimOwner
	}
	c.owner.Go(func() {
		defer recovery.Log(nil, "the owner of a program")
		own(cmd, started)
	})
	err = <-started
	closeAll(theirs)
	if err != nil {
		c.owner.Wait()
		closeAll([]*os.File{c.stdin, c.stdout, c.stderr})
		return nil, err
	}
	c.tree = newTree(c.id, spec.Belongs)
	c.tree.ownsGroup = c.running
	if spec.Isolation != nil {
		c.tree.shim = c.id.PID
	}
	return c, nil
}

// running reports whether the child was not reaped yet, so that its pid and the
// number of its group are still its own.
func (c *Child) running() bool {
	select {
	case <-c.reaped:
		return false
	default:
		return true
	}
}

// ID returns the child's own process.
func (c *Child) ID() ID { return c.id }

// runOwner starts the process and waits for its exit, all of it on one thread that
// does nothing else. The kernel kills the child (Pdeathsig) when the *thread*
// that forked it ends, not when our process does, and the Go runtime ends
// threads as it sees fit; one that is locked to this goroutine lives until it
// is unlocked. It costs nothing: a thread would be blocked in wait anyway.
func (c *Child) runOwner(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.started = time.Now()
	err := cmd.Start()
	if err == nil {
		// It is not reaped yet, so its pid is its own even if it has ended.
		if c.id, err = identify(cmd.Process.Pid); err != nil {
			err = errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
	}
	started <- err
	if err != nil {
		return
	}
	c.waitErr = cmd.Wait()
	c.recordExit(cmd.ProcessState)
	close(c.exited)
	close(c.reaped)
}

// recordExit notes how a process ended that was reaped.
func (c *Child) recordExit(state *os.ProcessState) {
	c.code, c.ended = state.ExitCode(), time.Now()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		c.signal = signalName(ws.Signal())
	}
}

// signalName is "" for no signal.
func signalName(sig syscall.Signal) string {
	if sig == 0 {
		return ""
	}
	return sig.String()
}

// openPipes makes the pipes. The child's ends are files of their own rather than
// what os/exec makes of readers and writers, because its Wait would wait for
// them, and a grandchild may hold them for ever.
func (c *Child) openPipes(cmd *exec.Cmd) (theirs []*os.File, err error) {
	var files []*os.File
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w
	}
	inR, inW := pipe()
	outR, outW := pipe()
	errR, errW := pipe()
	if err != nil {
		closeAll(files)
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	c.stdin, c.stdout, c.stderr = inW, outR, errR
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	return []*os.File{inR, outW, errW}, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // an end of a pipe: nothing is buffered, so nothing can be lost
	}
}

// Kill ends a child that never got its input, at once and with its tree. Its
// error is nil or a [SurvivorsError].
func (c *Child) Kill() error {
	exit, _ := c.finish(context.Background(), c.startPipes(nil), errKilled, discard) // which is the error
	if exit.Survivors != nil {
		return exit.Survivors
	}
	return nil
}

var errKilled = errors.New("killed before its input")

func discard(context.Context, []byte) error { return nil }
