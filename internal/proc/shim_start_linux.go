package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"mailroom/internal/recovery"
)

// runShimOwner is runOwner for an isolated child. It starts a shim, which starts the child and
// reports its exit. Child.id is the shim's.
func (c *Child) runShimOwner(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread() // see runOwner
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
	reported := s.reports.Decode(&r) == nil && r.Exited
	if reported {
		c.code, c.signal, c.ended = r.Code, signalName(syscall.Signal(r.Signal)), time.Now()
		close(c.exited)
	}
	err = s.wait()
	if !reported {
		c.waitErr = err
		c.recordExit(s.cmd.ProcessState)
		close(c.exited)
	}
	close(c.reaped)
}

// startedShim is a running shim.
type startedShim struct {
	cmd     *exec.Cmd
	reports *json.Decoder
	pipes   []*os.File   // this process's ends of the pipes
	group   *childCgroup // cgroup of the child; nil: the cgroup of this process
}

// startShim starts a shim and returns once the shim has started cmd, or with the
// error. If probe is not "", the shim starts no program but checks that it cannot
// read the file probe.
func startShim(cmd *exec.Cmd, i Isolation, probe string) (*startedShim, error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	i.Hide = withoutLinks(i.Hide)
	p := plan{Args: cmd.Args, Isolation: i, UID: os.Geteuid(), GID: os.Getegid(), Probe: probe}
	if probe == "" {
		p.Path = cmd.Path
	}
	shim := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{shimName}, Dir: cmd.Dir, Env: cmd.Env,
		Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if i.Kind == KindNamespace {
		// The kernel ends a pid namespace when its first process ends. A shim that is not such a process must outlive
		// its parent, to end the tree.
		shim.SysProcAttr.Pdeathsig = syscall.SIGKILL
		p.Map = namespaceAttributes(shim.SysProcAttr, i.User)
	}
	line, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode the plan of a shim: %w", err)
	}
	ordersIn, orders, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create pipes: %w", err)
	}
	reports, reportsIn, err := os.Pipe()
	if err != nil {
		closeAll([]*os.File{ordersIn, orders})
		return nil, fmt.Errorf("create pipes: %w", err)
	}
	s := &startedShim{cmd: shim, reports: json.NewDecoder(reports), pipes: []*os.File{orders, reports}}
	shim.ExtraFiles = []*os.File{ordersIn, reportsIn}
	if err = s.limitProcesses(i); err == nil {
		err = shim.Start()
	}
	closeAll(shim.ExtraFiles)
	if err != nil {
		s.release()
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

// withoutLinks returns the paths without symbolic links, as they are now, and without missing ones.
func withoutLinks(paths []string) (real []string) {
	for _, path := range paths {
		r, err := filepath.EvalSymlinks(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // Landlock would close the folder around it for nothing
			continue
		case err == nil:
			path = r
		}
		if !slices.Contains(real, path) {
			real = append(real, path)
		}
	}
	return real
}

// wait waits until the shim has ended, and reaps it.
func (s *startedShim) wait() error {
	if s.cmd.ProcessState != nil {
		return nil
	}
	err := s.cmd.Wait()
	s.release()
	return err
}

// limitProcesses makes a cgroup for the shim and the child, if the isolation has one and a limit.
func (s *startedShim) limitProcesses(i Isolation) (err error) {
	if i.Cgroup == nil || i.Resources.Processes == 0 {
		return nil
	}
	if s.group, err = i.Cgroup.create(i.Resources.Processes); err == nil {
		s.group.startIn(s.cmd.SysProcAttr)
	}
	return err
}

func (s *startedShim) release() {
	closeAll(s.pipes)
	if s.group != nil {
		s.group.remove()
	}
}

func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// Probe tries the kinds and returns the strongest that works for this process. The
// error says why it is KindNone.
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

// Try starts an isolated process that tries to read a hidden file. It returns nil
// if this process can use kind, or the reason why not.
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
		defer recovery.Log(nil, "shim probe")
		closeAll(s.pipes)
	})()
	_, err = io.Copy(io.Discard, s.pipes[1])
	return errors.Join(err, s.wait())
}

// endShim kills the shim of an isolated child after all other processes of the tree have ended.
func (c *Child) endShim() *SurvivorsError {
	if c.tree.shim == 0 {
		return nil
	}
	// stop returns no other kind of error here.
	left, _ := errors.AsType[*SurvivorsError](c.tree.stop(context.Background(), []stopStage{{syscall.SIGKILL, killWait}},
		nil))
	return left
}
