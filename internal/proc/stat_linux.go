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

// processes lists the processes of this pid namespace.
func processes() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // the folder is not one of a process
		}
		p, err := readProcess(pid)
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
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseStat(string(b))
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
	fields := strings.Fields(line[end+1:]) // from field 3 on
	if len(fields) < 20 || len(fields[0]) != 1 {
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
