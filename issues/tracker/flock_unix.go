//go:build unix

package tracker

import (
	"errors"
	"os"
	"syscall"
)

// syncsFolders says that a new name in a folder is on disk only once the folder is synced.
const syncsFolders = true

// flock locks an open file. The error is EWOULDBLOCK if another process holds the lock.
func flock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
