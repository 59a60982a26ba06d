package setting

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// OpenFile opens a file that a person named, to read it. It refuses what can block forever or never
// ends: a named pipe, a device, a socket. It accepts a descriptor that the caller's shell has opened,
// such as "<(command)", which is a pipe under /dev/fd, and /dev/null. Rejected: to open a pipe without
// waiting for its writer, because it then reads as an empty file.
func OpenFile(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil {
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			failed.Op = "open" // the operation that the person asked for
		}
		return nil, err
	}
	if err := readable(name, info); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil { // another file may have taken the place of this one
		err = readable(name, info)
	}
	if err != nil {
		_ = f.Close() // read only
		return nil, err
	}
	return f, nil
}

// ReadFile returns the content of a file that [OpenFile] accepts.
func ReadFile(name string) ([]byte, error) {
	f, err := OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	return io.ReadAll(f)
}

func readable(name string, info fs.FileInfo) error {
	kind := ""
	switch mode := info.Mode(); {
	case mode.IsRegular() || isDescriptor(name):
		return nil
	case mode.IsDir():
		kind = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(info, null) {
			return nil
		}
		kind = "a device"
	default:
		kind = "no regular file"
	}
	return fmt.Errorf("%s is %s; name a regular file, or /dev/stdin for standard input", name, kind)
}

// isDescriptor reports whether a name stands for an open descriptor of this process, such as /dev/fd/3.
func isDescriptor(name string) bool {
	name = filepath.Clean(name)
	return name == "/dev/stdin" || strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/proc/self/fd/")
}
