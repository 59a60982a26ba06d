package proc

import (
	"errors"
	"slices"
	"syscall"
)

// Exhausted reports whether a start failed because the machine, or the group of processes that the server is in, has no
// room for another process: a limit of processes or threads (EAGAIN), of open files (EMFILE, ENFILE), or of memory
// (ENOMEM). The program has not run then. ETXTBSY, a program that is being written by its update, passes too.
//
// See fork(2), clone(2), pipe(2) and execve(2).
func Exhausted(err error) bool {
	return slices.ContainsFunc(
		[]error{syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ETXTBSY},
		func(limit error) bool { return errors.Is(err, limit) })
}
