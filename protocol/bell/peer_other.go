//go:build !linux

package bell

import "net"

// checkPeer accepts the process that listens: the folder of the socket was checked.
func checkPeer(*net.UnixConn) error { return nil }
