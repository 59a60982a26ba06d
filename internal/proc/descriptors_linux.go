package proc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstInherited is the first descriptor behind stdin, stdout and stderr.
const firstInherited = 3

// HideDescriptors makes programs that this process executes from now on inherit no descriptor but their stdin, stdout
// and stderr. Package os marks every file that it opens so already. HideDescriptors marks the descriptors that this
// process was started with, such as the files and sockets of a supervisor. This process keeps them.
func HideDescriptors() error {
	err := unix.CloseRange(firstInherited, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	// Linux before 5.11 does not know this flag, and a seccomp filter may refuse the call.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		err = hideListed("/proc/self/fd")
	}
	if err != nil {
		return fmt.Errorf("hide the descriptors that this process was started with: %w", err)
	}
	return nil
}

// hideListed does the work of [HideDescriptors] for the descriptors that a folder of /proc lists.
func hideListed(folder string) error {
	all, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range all {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= firstInherited {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
