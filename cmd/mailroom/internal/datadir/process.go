package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// serverLockFile is the file on which a server holds a record lock while it runs. The kernel tells which process holds such a lock and
// drops it with the process, so no process id is ever read from a file.
const serverLockFile = "server.lock"

// HiddenError says that a server runs on a folder in a process that this one cannot see, such as one in another container.
type HiddenError struct{ Dir Dir }

func (e *HiddenError) Error() string {
	return fmt.Sprintf("the server on %s runs in a process that cannot be seen from here, such as one in another container", e.Dir)
}

// Process is a running server of a folder.
type Process struct {
	PID    int
	dir    Dir
	handle *os.Process // on Linux a pidfd: it never refers to another process
}

// Process finds the server that runs on the folder; nil: none does. The error is [errors.ErrUnsupported] where the system does not
// tell who holds a lock, and a [*HiddenError] for a process out of sight.
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
		// A process that holds the lock after the handle was made is the one behind the handle, or the handle's has ended.
		again, err := f.serverPID()
		if err == nil && again == pid {
			return &Process{PID: pid, dir: f, handle: handle}, nil
		}
		if err := errors.Join(err, handle.Release()); err != nil {
			return nil, fmt.Errorf("find the server of %s: %w", f, err)
		}
	}
	return nil, fmt.Errorf("servers on %s start and end too fast for one to be found", f)
}

// Signal sends the server a signal. A server that has ended gets none, and no other process does.
func (p *Process) Signal(sig os.Signal) error {
	if ended, err := p.Ended(); ended || err != nil {
		return err
	}
	if err := p.handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal the server of %s: %w", p.dir, err)
	}
	return nil
}

// Ended tells whether the server no longer runs.
func (p *Process) Ended() (bool, error) {
	pid, err := p.dir.serverPID()
	return err == nil && pid != p.PID, err
}

// Release drops the handle.
func (p *Process) Release() error { return p.handle.Release() }

// openServerLock opens the lock file without making it; nil: there is none.
func (f Dir) openServerLock() (*os.File, error) {
	file, err := os.Open(f.path(serverLockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the server of %s: %w", f, err)
	}
	return file, nil
}
