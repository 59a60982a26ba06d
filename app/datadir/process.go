package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// serverLockFile is the file that a server holds a record lock on while it runs. The kernel reports the process that
// holds a record lock, and releases the lock at its end. A process id that is read from a file could be that of
// another process by now.
const serverLockFile = "server.lock"

// HiddenError reports that the server of a folder runs in a process that is not visible here, for example in another
// container.
type HiddenError struct{ Dir Dir }

func (e *HiddenError) Error() string {
	return fmt.Sprintf("the server of %s runs in a process that is not visible here, such as in another container", e.Dir)
}

// Process is a running server of a folder.
type Process struct {
	PID    int
	dir    Dir
	handle *os.Process // on Linux a pidfd, which never refers to another process
}

// Process returns the server of the folder, or nil if none runs. The error is a [*HiddenError] if the process is not
// visible.
func (f Dir) Process() (*Process, error) {
	for range 3 {
		pid, err := f.serverPID()
		if pid == 0 || err != nil {
			return nil, err
		}
		handle, err := os.FindProcess(pid)
		if err != nil {
			return nil, fmt.Errorf("find the server of %s: %w", f, err)
		}
		// If the process with this id still holds the lock now that the handle is open, the handle refers to the
		// server. Otherwise the server has ended.
		again, err := f.serverPID()
		if err == nil && again == pid {
			return &Process{PID: pid, dir: f, handle: handle}, nil
		}
		if err := errors.Join(err, handle.Release()); err != nil {
			return nil, fmt.Errorf("find the server of %s: %w", f, err)
		}
	}
	return nil, fmt.Errorf("cannot find the server of %s: servers start and end too fast", f)
}

// Signal sends a signal to the server, never to another process. It does nothing if the server has ended.
func (p *Process) Signal(sig os.Signal) error {
	if ended, err := p.Ended(); ended || err != nil {
		return err
	}
	if err := p.handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal the server of %s: %w", p.dir, err)
	}
	return nil
}

// Ended reports whether the server has ended.
func (p *Process) Ended() (bool, error) {
	pid, err := p.dir.serverPID()
	return err == nil && pid != p.PID, err
}

// Release releases the process handle.
func (p *Process) Release() error { return p.handle.Release() }

// openServerLock opens the lock file, or returns nil if it does not exist.
func (f Dir) openServerLock() (*os.File, error) {
	file, err := os.Open(f.path(serverLockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the server of %s: %w", f, err)
	}
	return file, nil
}
