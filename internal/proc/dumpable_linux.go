package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// HideSelf makes this process not dumpable: no process of the same user may
// trace it, read its memory or its environment (proc(5), PR_SET_DUMPABLE), and
// it dumps no core. A process with CAP_SYS_PTRACE still may. The programs that it
// executes are dumpable again. On systems other than Linux HideSelf does nothing.
func HideSelf() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process not dumpable: %w", err)
	}
	return nil
}
