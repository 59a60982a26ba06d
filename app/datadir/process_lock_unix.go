//go:build unix

package datadir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// checkSystem returns nil: the folder can be used on this system.
func checkSystem() error { return nil }

// MarkServer marks this process as the folder's server until Release, with a record lock that ends with the process. It
// waits for at most lockWait for the lock of a server that has just ended.
func (h *Lock) MarkServer(ctx context.Context) error {
	file, err := os.OpenFile(h.Dir.path(serverLockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("mark the server of %s: %w", h.Dir, err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		lock := unix.Flock_t{Type: unix.F_WRLCK}
		err := unix.FcntlFlock(file.Fd(), unix.F_SETLK, &lock)
		if err == nil {
			h.serverLock = file
			return nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return errors.Join(fmt.Errorf("mark the server of %s: %w", h.Dir, err), file.Close())
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(h.Dir.inUseError(), file.Close())
		}
	}
}

// serverPID returns the process id of the folder's server, or 0 if none runs.
func (f Dir) serverPID() (pid int, err error) {
	file, err := f.openServerLock()
	if file == nil || err != nil {
		return 0, err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, fmt.Errorf("find the server of %s: %w", f, err)
	}
	switch {
	case lock.Type == unix.F_UNLCK:
		return 0, nil
	case lock.Pid <= 0:
		return 0, &HiddenError{Dir: f}
	}
	return int(lock.Pid), nil
}
