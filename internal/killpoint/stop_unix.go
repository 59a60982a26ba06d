//go:build unix

package killpoint

import (
	"os"
	"os/signal"
	"syscall"
)

// stopProcess stops the process until it gets SIGCONT. The kernel may let the thread that sends
// SIGSTOP run on for a moment while it stops the others, so the caller waits for SIGCONT too.
func stopProcess() error {
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	<-resumed
	return nil
}
