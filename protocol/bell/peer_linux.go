package bell

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// checkPeer returns an error with [ErrGone] unless the process that listens is of this user. The kernel says who it is,
// so it does not matter who has replaced the file of the socket since it was checked.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("ring claude: %w", err)
	}
	var peer *syscall.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) {
		peer, asked = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	switch err := errors.Join(err, asked); {
	case err != nil:
		return fmt.Errorf("ring claude: %w", err)
	case int(peer.Uid) != os.Geteuid():
		return fmt.Errorf("%w: a process of another user listens on its socket", ErrGone)
	}
	return nil
}
