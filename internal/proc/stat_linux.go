package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread reports whether a pipe holds data.
func unread(f *os.File) (some bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Control(func(fd uintptr) {
		n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		some = err == nil && n > 0
	})
	return err == nil && some
}

// process holds fields of /proc/PID/stat; see proc(5).
type process struct {
	pid, parent, group, session int
	state                       byte
	threads                     int
	start                       uint64 // clock ticks since boot
	used                        uint64 // clock ticks of processor time, including its ended children
	kernel                      bool   // a kernel thread
}

// alive reports whether the process runs. A zombie with more than one thread does:
// only its main thread has ended.
func (p process) alive() bool {
	return p.state != 'X' && (p.state != 'Z' || p.threads > 1)
}

// processes lists the processes of this pid namespace, without those for which skip returns true. A nil skip returns
// false.
func processes(skip func(pid int) bool) ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make([]process, 0, len(names))
	buf := make([]byte, statSize)
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue // the folder is not one of a process
		}
		if pid, err := strconv.Atoi(name); err == nil && skip != nil && skip(pid) {
			continue
		}
		p, err := readStat(name, buf)
		switch {
		case ignoreGone(err) == nil && err != nil:
			continue
		case err != nil:
			return nil, fmt.Errorf("list processes: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

func readProcess(pid int) (process, error) {
	return readStat(strconv.Itoa(pid), make([]byte, statSize))
}

// statSize is more than the bytes of any /proc/PID/stat: a name of 64 bytes and about 50 numbers. The kernel writes all
// that fits into the buffer at the first read.
const statSize = 2048

// readStat reads the process whose folder has this name, with a buffer of statSize bytes. Each git command and each
// agent program ends with a scan of all processes, so it makes three system calls, where [os.ReadFile] makes ten.
func readStat(name string, buf []byte) (p process, err error) {
	path := "/proc/" + name + "/stat"
	again := func(call func() (int, error)) (n int) {
		for n, err = call(); err == unix.EINTR; n, err = call() {
		}
		return n
	}
	fd := again(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return process{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	n := again(func() (int, error) { return unix.Read(fd, buf) })
	unix.Close(fd)
	if err != nil {
		return process{}, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return parseStat(string(buf[:n]))
}

// parseStat parses /proc/PID/stat. The program's name is in parentheses and may
// itself contain parentheses and spaces.
func parseStat(line string) (process, error) {
	bad := func(what string) (process, error) {
		return process{}, fmt.Errorf("parse /proc stat: no %s in %q", what, line)
	}
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return bad("name")
	}
	var fields [20]string // from field 3 on, up to the start time
	rest, found := strings.CutPrefix(line[end+1:], " ")
	for i := range fields {
		if !found {
			return bad("start time")
		}
		fields[i], rest, found = strings.Cut(rest, " ")
	}
	if len(fields[0]) != 1 {
		return bad("start time")
	}
	p := process{state: fields[0][0]}
	var err error
	number := func(s string) int {
		n, e := strconv.Atoi(s)
		err = errors.Join(err, e)
		return n
	}
	p.pid = number(strings.TrimSpace(line[:open]))
	p.parent, p.group, p.session = number(fields[1]), number(fields[2]), number(fields[3])
	flags, e := strconv.ParseUint(fields[6], 10, 64)
	err = errors.Join(err, e)
	p.threads = number(fields[17])
	p.start, e = strconv.ParseUint(fields[19], 10, 64)
	err = errors.Join(err, e)
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		ticks, e := strconv.ParseUint(field, 10, 64)
		p.used, err = p.used+ticks, errors.Join(err, e)
	}
	if err != nil {
		return process{}, fmt.Errorf("parse /proc stat: %w", err)
	}
	const kernelThread = 0x00200000 // PF_KTHREAD
	p.kernel = flags&kernelThread != 0
	return p, nil
}

// environ returns the environment that the process was started with, as
// NUL-terminated entries. It is "" if the process has ended or may not be read.
func (p process) environ() string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
	if err != nil {
		return ""
	}
	return string(b)
}

// signal sends sig to this process, never to another with the same pid: it opens a
// handle first and compares the start time before it uses the handle.
func (p process) signal(sig syscall.Signal) error {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return ignoreGone(err)
	}
	now, err := readProcess(p.pid)
	if err == nil && now.start == p.start {
		err = handle.Signal(sig)
	}
	return errors.Join(ignoreGone(err), handle.Release())
}

// ignoreGone returns nil for an error that means that the process has ended, else err.
func ignoreGone(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
