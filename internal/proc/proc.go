// Package proc runs a child process, streams its input and output, and ends its
// whole process tree: when the child is stopped, when it exits and leaves
// processes behind, and when this process dies first.
//
// A child's tree is its process group and session, its descendants, and every
// process with the child's mark in its environment. The mark finds processes that
// left the group and lost their parent. A process that cleared its environment,
// began a session and was orphaned before the tree was scanned is found only if
// the child is isolated: then the shim adopts the orphans.
//
// On Linux a process is identified by pid and start time, so a reused pid is never signalled. On other Unix systems
// the tree is only the process group, a child goes on if its parent is killed, and [KillLeftovers] finds nothing.
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

// ID identifies one process, even after its pid is reused.
type ID struct {
	PID       int    `json:"pid"`
	Group     int    `json:"group"`               // id of the process group, which the child leads
	Start     uint64 `json:"start,omitempty"`     // Linux: start time in clock ticks since boot
	Boot      string `json:"boot,omitempty"`      // Linux: boot id
	Namespace string `json:"namespace,omitempty"` // Linux: pid namespace of PID
	Host      string `json:"host"`
}

// Belongs reports from a process's environment whether it is part of a tree.
type Belongs func(lookup func(name string) (value string, ok bool)) bool

// Spec describes a child.
type Spec struct {
	Command []string // argument vector, without a shell; [0] is looked up in this process's PATH
	Dir     string   // working directory; "": of this process
	Env     []string // the whole environment, NAME=VALUE; the last entry of a name wins
	Belongs Belongs  // recognizes the mark in Env; nil: no mark
	Limits  Limits
	// Isolation is the sandbox. If it is nil, the child has all rights of this process.
	Isolation *Isolation
	// Farewell asks the child to end, such as by input, and reports whether it did. If it did, the child has
	// farewellTime to end before it gets INT. Run calls it from its own goroutine, if it stops the child and nothing is
	// urgent. nil: the child is stopped by signals only.
	Farewell func() bool
	// Urgent reports whether a reason to stop (a context's cause or an error of Emit) requires KILL at once, without
	// INT and TERM. If it is nil, no reason is urgent.
	Urgent func(why error) bool
}

// Limits bound a child's time and output. 0 is no limit.
type Limits struct {
	Start  time.Duration // time until the first output on stdout or stderr
	Idle   time.Duration // between two outputs; also before the first if Start is 0
	Total  time.Duration // time from Run to the child's exit
	Output int64         // bytes of stdout
	Stderr int           // last bytes of stderr to keep
	// Working reports whether the child waits for something that it started, such as a tool. While it does, or while
	// the child's processes use the processor, Busy applies instead of Idle. Run calls Working from the goroutine of
	// Emit. If Working is nil, Idle always applies.
	Working func() bool
	Busy    time.Duration
	// StdoutOnly is set if output on stderr does not count as activity for Start and Idle.
	StdoutOnly bool

	Interrupt time.Duration // time from SIGINT to SIGTERM when the child is stopped
	Terminate time.Duration // time from SIGTERM to SIGKILL
}

// Reasons why Run stopped a child. Other reasons are the cause of the child's context and errors of Emit.
var (
	ErrStart  = errors.New("no output before the start timeout")
	ErrIdle   = errors.New("no output before the idle timeout")
	ErrBusy   = errors.New("no output before the call timeout")
	ErrTotal  = errors.New("total timeout exceeded")
	ErrOutput = errors.New("output limit exceeded")
)

// Child is a started process. The caller must call one of Run, RunWithInput and
// Kill, once, and wait for it to return.
type Child struct {
	// Set by Start, and only read afterwards.
	spec                  Spec
	id                    ID
	started               time.Time
	stdin, stdout, stderr *os.File // this process's ends of the pipes

	// Owned by the goroutine that stops the process tree.
	tree *tree

	// Set by the goroutine that owns the process before it closes exited.
	code    int    // exit status; -1: killed by a signal
	signal  string // name of that signal
	waitErr error
	ended   time.Time

	exited chan struct{}
	reaped chan struct{} // closed when the process id is reaped; with a shim, after exited
	owner  sync.WaitGroup
}

// Start starts a child. Its stdin stays empty until the caller calls Run. Errors come from the
// system, such as [exec.ErrNotFound], [fs.ErrNotExist] and [fs.ErrPermission]; their texts name
// only the program and Dir.
func Start(spec Spec) (*Child, error) {
	if spec.Dir != "" {
		// Check the folder first, because os/exec reports a missing folder as if the program were missing.
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
		cmd.Env = []string{} // nil would inherit this process's environment
	}
	c := &Child{spec: spec, exited: make(chan struct{}), reaped: make(chan struct{})}
	theirs, err := c.openPipes(cmd)
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	release := catchIgnored()
	own := c.runOwner
	if spec.Isolation != nil {
		own = c.runShimOwner
	}
	c.owner.Go(func() {
		defer recovery.Log(nil, "program owner")
		own(cmd, started)
	})
	err = <-started
	release()
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

// running reports whether the child is not reaped yet. Until it is reaped, its pid and group id cannot be reused.
func (c *Child) running() bool {
	select {
	case <-c.reaped:
		return false
	default:
		return true
	}
}

// ID identifies the child's process; with isolation, its shim.
func (c *Child) ID() ID { return c.id }

// runOwner starts the process and waits for its exit on one locked thread. The
// kernel kills the child (Pdeathsig) when the *thread* that forked it ends, not
// when the process does, and the Go runtime may end an idle thread at any time. A
// locked thread lives until it is unlocked. The lock costs nothing: a thread is
// blocked in wait anyway.
func (c *Child) runOwner(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.started = time.Now()
	err := cmd.Start()
	if err == nil {
		// The child is not reaped yet, so its pid is not reused even if it has exited.
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

// recordExit records the exit status of the reaped process.
func (c *Child) recordExit(state *os.ProcessState) {
	c.code, c.ended = state.ExitCode(), time.Now()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		c.signal = signalName(ws.Signal())
	}
}

// signalName returns the name of sig, "" for 0.
func signalName(sig syscall.Signal) string {
	if sig == 0 {
		return ""
	}
	return sig.String()
}

// openPipes creates the pipes and returns the child's ends. It does not let os/exec create the pipes, because
// Cmd.Wait would wait until they are closed, and a grandchild may keep them open forever.
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
		return nil, fmt.Errorf("create pipes: %w", err)
	}
	c.stdin, c.stdout, c.stderr = inW, outR, errR
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	return []*os.File{inR, outW, errW}, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // a pipe buffers nothing here, so nothing can be lost
	}
}

// Kill ends a child at once, with its whole tree, if Run was not called for it. The error is nil or a
// [SurvivorsError].
func (c *Child) Kill() error {
	exit, _ := c.finish(context.Background(), c.startPipes(nil), errKilled, discard) // the error is errKilled
	if exit.Survivors != nil {
		return exit.Survivors
	}
	return nil
}

var errKilled = errors.New("killed before its input")

func discard(context.Context, []byte) error { return nil }
