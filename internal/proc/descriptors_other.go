//go:build unix && !linux

package proc

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// HideDescriptors makes programs that this process executes from now on inherit no descriptor but their
// stdin, stdout and stderr.
func HideDescriptors() error {
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("hide the descriptors that this process was started with: %w", err)
	}
	for _, e := range all {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
