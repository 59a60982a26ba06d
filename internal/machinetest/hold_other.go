//go:build !linux

package machinetest

import "net"

// hold chooses a port and does not hold it. On systems other than Linux, a socket that is bound and does not listen
// can take connections from the listener on the same port, or keep that listener from binding.
func hold() (*net.TCPAddr, func() error, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0") // archtest: no system but Linux can hold a port for others.
	if err != nil {
		return nil, nil, err
	}
	return ln.Addr().(*net.TCPAddr), func() error { return nil }, ln.Close()
}
