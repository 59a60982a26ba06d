package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// HideSelf makes this process not dumpable: no process of the same user may
// trace it, read its memory or its environment (proc(5), PR_SET_DUMPABLE), and
// it leaves no core. Root with CAP_SYS_PTRACE still can. A program that is
// executed is dumpable again. On systems other than Linux it does nothing.
func HideSelf() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process not dumpable: %w", err)
	}
	return nil
}
