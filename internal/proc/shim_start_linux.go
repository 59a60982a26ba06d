package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"mailroom/internal/recovery"
)

// runShimOwner is own for an isolated child: it starts a shim, which starts the child
// and tells how it ends. The shim is the process by which the child is known.
func (c *Child) runShimOwner(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread() // see own
	defer runtime.UnlockOSThread()
	c.started = time.Now()
	s, err := startShim(cmd, *c.spec.Isolation, "")
	if err == nil {
		if c.id, err = identify(s.cmd.Process.Pid); err != nil {
			err = errors.Join(err, s.cmd.Process.Kill(), s.wait())
		}
	}
	started <- err
	if err != nil {
		return
	}
	var r report
	told := s.reports.Decode(&r) == nil && r.Exited
	if told {
		c.code, c.signal, c.ended = r.Code, signalName(syscall.Signal(r.Signal)), time.Now()
		close(c.exited)
	}
	err = s.wait()
	if !told {
		c.waitErr = err
		c.recordExit(s.cmd.ProcessState)
		close(c.exited)
	}
	close(c.reaped)
}

// started is a shim that runs.
type startedShim struct {
	cmd     *exec.Cmd
	reports *json.Decoder
	pipes   []*os.File // our ends
}

// startShim starts a shim for cmd, and returns when that was started, or with
// why not. With a probe, a file, there is no cmd.
func startShim(cmd *exec.Cmd, i Isolation, probe string) (*startedShim, error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	p := plan{Args: cmd.Args, Isolation: i, UID: os.Geteuid(), GID: os.Getegid(), Probe: probe}
	if probe == "" {
		p.Path = cmd.Path
	}
	shim := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{shimName}, Dir: cmd.Dir, Env: cmd.Env,
		Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if i.Kind == KindNamespace {
		// All its processes end with it. A shim without a pid namespace ends
		// them first, and must live for that.
		shim.SysProcAttr.Pdeathsig = syscall.SIGKILL
		p.Map = namespaceAttributes(shim.SysProcAttr, i.User)
	}
	line, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode the plan of a shim: %w", err)
	}
	ordersIn, orders, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	reports, reportsIn, err := os.Pipe()
	if err != nil {
		closeAll([]*os.File{ordersIn, orders})
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	s := &startedShim{cmd: shim, reports: json.NewDecoder(reports), pipes: []*os.File{orders, reports}}
	shim.ExtraFiles = []*os.File{ordersIn, reportsIn}
	err = shim.Start()
	closeAll(shim.ExtraFiles)
	if err != nil {
		closeAll(s.pipes)
		return nil, fmt.Errorf("isolate the program: %w", err)
	}
	var first report
	if _, err = orders.Write(append(line, '\n')); err == nil {
		err = s.reports.Decode(&first)
	}
	if err == nil {
		err = first.err(cmd.Path)
	} else if state := s.wait(); state != nil {
		return nil, fmt.Errorf("isolate the program: the shim ended: %w", state)
	}
	if err != nil {
		return nil, errors.Join(err, ignoreExit(s.wait()))
	}
	return s, nil
}

// wait reaps the shim.
func (s *startedShim) wait() error {
	if s.cmd.ProcessState != nil {
		return nil
	}
	err := s.cmd.Wait()
	closeAll(s.pipes)
	return err
}

func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// Probe returns the strongest kind that this machine lets this process use, as
// found by trying. The error says why there is nothing better than None.
func Probe(ctx context.Context) (Kind, error) {
	var why error
	for _, kind := range []Kind{KindNamespace, KindLandlock} {
		err := Try(ctx, kind)
		if err == nil {
			return kind, nil
		}
		if ctx.Err() != nil {
			return KindNone, context.Cause(ctx)
		}
		why = errors.Join(why, fmt.Errorf("%s: %w", kind, err))
	}
	return KindNone, why
}

// Try isolates a process by a kind and has it try to read a file that is hidden
// from it. It returns why the kind cannot be used, nil if it can.
func Try(ctx context.Context, kind Kind) (err error) {
	if kind == KindNone {
		return nil
	}
	dir, err := os.MkdirTemp("", "mailroom-probe-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	file := filepath.Join(dir, "hidden")
	if err := os.WriteFile(file, []byte("hidden"), 0o600); err != nil {
		return err
	}
	s, err := startShim(&exec.Cmd{Env: []string{}}, Isolation{Kind: kind, Hide: []string{dir}}, file)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		defer recovery.Log(nil, "the end of a shim")
		closeAll(s.pipes)
	})()
	_, err = io.Copy(io.Discard, s.pipes[1])
	return errors.Join(err, s.wait())
}

// endShim ends the shim of an isolated child, of which nothing else is left.
func (c *Child) endShim() *SurvivorsError {
	if c.tree.shim == 0 {
		return nil
	}
	left, _ := errors.AsType[*SurvivorsError](c.tree.stop(context.Background(), []stopStage{{syscall.SIGKILL, killWait}}, nil)) // its only error
	return left
}
