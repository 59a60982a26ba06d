package tracker

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// syncsFolders says that folders are not synced: Windows cannot, and NTFS keeps names in its own journal.
const syncsFolders = false

// flock locks an open file. The error is EWOULDBLOCK if another process holds the lock. It locks one byte far behind
// the end, because a lock of Windows also keeps others from reading what it covers: they read who holds it.
func flock(file *os.File) error {
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(file.Fd()), how, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return syscall.EWOULDBLOCK
	}
	return err
}
