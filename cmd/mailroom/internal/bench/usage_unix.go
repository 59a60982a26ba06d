//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuTime is how long this process has used a core, 0 if the system does not
// tell.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
