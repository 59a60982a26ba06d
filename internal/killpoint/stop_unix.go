//go:build unix

package killpoint

import (
	"os"
	"syscall"
)

// stopProcess stops the process until it gets SIGCONT.
func stopProcess() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }
