package machinetest

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// hold binds a socket with SO_REUSEADDR. Linux then lets a listener with the same option bind the port when it names
// it, but chooses the port neither for a bind to port 0 nor for an outgoing connection. The rejected alternative,
// SO_REUSEPORT, would also refuse a second program that names the port, but no server that tests start sets it.
func hold() (*net.TCPAddr, func() error, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socket", err)
	}
	release := func() error { return os.NewSyscallError("close", syscall.Close(fd)) }
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("setsockopt", err), release())
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("bind", err), release())
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("getsockname", err), release())
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*syscall.SockaddrInet4).Port}, release, nil
}
