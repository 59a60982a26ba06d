//go:build !linux

package machinetest

import "net"

// hold chooses a port and keeps nothing: elsewhere than on Linux, a socket that is bound and does not listen can take
// the connections of the listener beside it, or keep it from binding.
func hold() (*net.TCPAddr, func() error, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0") // archtest: no system but Linux can hold a port for others.
	if err != nil {
		return nil, nil, err
	}
	return ln.Addr().(*net.TCPAddr), func() error { return nil }, ln.Close()
}
