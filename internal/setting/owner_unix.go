//go:build unix

package setting

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwn reports whether a file belongs to the account of this process.
func isOwn(info fs.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}
