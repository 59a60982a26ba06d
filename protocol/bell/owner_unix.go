//go:build unix

package bell

import (
	"os"
	"syscall"
)

// isOwn reports whether a file belongs to the user of this process.
func isOwn(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
