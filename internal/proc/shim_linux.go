package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// shimName is argument 0 of a shim: the process between us and an isolated
// child. It is this program, executed again.
const shimName = "mailroom-shim"

// Descriptors of a shim beside those that it hands to the child.
const (
	shimOrders  = 3 // its plan, one line of JSON; the end of the file says that we died
	shimReports = 4 // reports, one line of JSON each
)

// plan is what a shim is told to do.
type plan struct {
	Path string   `json:"path"` // program; "" starts none
	Args []string `json:"args"`
	Isolation

	// Map says that the shim maps its own user, because its parent may not.
	Map bool `json:"map,omitempty"`
	UID int  `json:"uid"`
	GID int  `json:"gid"`
	// Probe is a file that must not be readable once all is prepared.
	Probe string `json:"probe,omitempty"`
}

// report is what a shim tells: that the child was started, or why not, and how
// it ended.
type report struct {
	Op      string        `json:"op,omitempty"` // what failed
	Errno   syscall.Errno `json:"errno,omitempty"`
	Failed  string        `json:"failed,omitempty"`
	Started bool          `json:"started,omitempty"`
	Exited  bool          `json:"exited,omitempty"`
	Code    int           `json:"code"`
	Signal  int           `json:"signal,omitempty"`
}

// init turns a process that was started as a shim into one. It happens here and
// not in main so that every program that can start an isolated child can also be
// its shim, tests included, and so that a shim does not wait for the packages
// that are initialised later.
func init() {
	if len(os.Args) == 1 && os.Args[0] == shimName {
		os.Exit(runShim())
	}
}

// runShim prepares the isolation, starts the child, reaps all that is left to it,
// and ends when nothing is left, or when the process that started it has ended.
func runShim() int {
	runtime.LockOSThread() // what is prepared belongs to the thread that forks
	unix.CloseOnExec(shimOrders)
	unix.CloseOnExec(shimReports)
	orders, reports := os.NewFile(shimOrders, "orders"), os.NewFile(shimReports, "reports")
	// Signals to the tree are for the child. They are caught and not ignored:
	// what is ignored would be ignored by the child too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	tell := func(r report) bool { return json.NewEncoder(reports).Encode(r) == nil }
	reader := bufio.NewReader(orders)
	line, err := reader.ReadBytes('\n')
	var p plan
	if err == nil {
		err = json.Unmarshal(line, &p)
	}
	if err != nil {
		return 125
	}
	if err := p.prepare(); err != nil {
		tell(failureReport(err))
		return 125
	}
	if p.Path == "" {
		tell(report{Started: true})
		return 0
	}
	child, err := p.start()
	if err != nil {
		tell(failureReport(err))
		return 126
	}
	if !tell(report{Started: true}) || releaseStreams() != nil {
		endDescendants()
		return 125
	}
	go func() { // archtest: this is the shim's own process, which is to end with this.
		_, _ = io.Copy(io.Discard, reader) // its end is what matters
		endDescendants()
		os.Exit(125)
	}()
	reap(child, tell)
	return 0
}

// opError names what failed.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

func failureReport(err error) report {
	r := report{Failed: err.Error()}
	if op, ok := errors.AsType[*opError](err); ok {
		r.Op = op.op
	}
	r.Errno, _ = errors.AsType[syscall.Errno](err)
	return r
}

// err is the error that a report tells of. That of a program that cannot be
// executed is as package os would give it.
func (r report) err(path string) error {
	switch {
	case r.Failed == "":
		return nil
	case r.Op == opExec:
		return &os.PathError{Op: r.Op, Path: path, Err: r.Errno}
	}
	return fmt.Errorf("isolate the program: %s", r.Failed)
}

const opExec = "fork/exec"

// prepare makes what the child inherits.
func (p *plan) prepare() error {
	if os.Getpid() != 1 {
		// Orphans come to this process, and so to those that look for the tree.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return &opError{"become the parent of orphans", err}
		}
	}
	var err error
	switch p.Kind {
	case KindNamespace:
		err = p.enterNamespace()
	case KindLandlock:
		err = p.restrict()
	}
	if err != nil {
		return err
	}
	if p.Probe != "" {
		if _, err := os.ReadFile(p.Probe); err == nil {
			return fmt.Errorf("a hidden file can still be read")
		}
	}
	return p.setLimits()
}

func (p *plan) setLimits() error {
	for _, l := range []struct {
		resource int
		value    uint64
		set      bool
	}{
		{unix.RLIMIT_CORE, 0, true},
		{unix.RLIMIT_FSIZE, p.Resources.FileSize, p.Resources.FileSize > 0},
		{unix.RLIMIT_NOFILE, p.Resources.OpenFiles, p.Resources.OpenFiles > 0},
		{unix.RLIMIT_NPROC, p.Resources.Processes, p.Resources.Processes > 0},
	} {
		if !l.set {
			continue
		}
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &now); err != nil {
			return &opError{"read a resource limit", err}
		}
		to := min(l.value, now.Max) // nobody but root can raise it
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: to, Max: to}); err != nil {
			return &opError{"set a resource limit", err}
		}
	}
	return nil
}

// start starts the child in a process group of its own.
func (p *plan) start() (pid int, err error) {
	attr := &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if u := p.User; u != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	pid, err = syscall.ForkExec(p.Path, p.Args, attr)
	if err != nil {
		return 0, &opError{opExec, err}
	}
	return pid, nil
}

// releaseStreams lets go of the child's pipes, so that their other ends see when
// the child closes them.
func releaseStreams() error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for fd := range 3 {
		err = errors.Join(err, unix.Dup3(null, fd, 0))
	}
	return errors.Join(err, unix.Close(null))
}

// reap collects children until there are none, and tells how the first ended.
func reap(child int, tell func(report) bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // ECHILD: nothing is left
			return
		case pid != child:
			continue
		}
		r := report{Exited: true, Code: status.ExitStatus()}
		if status.Signaled() {
			r.Code, r.Signal = -1, int(status.Signal())
		}
		tell(r) // if it cannot be told, our parent has ended, which the other goroutine sees
	}
}

// endDescendants kills what descends from this process. In a pid namespace of
// its own its end does that.
func endDescendants() {
	if os.Getpid() == 1 {
		return
	}
	const rounds = 500
	self := os.Getpid()
	for range rounds {
		all, err := processes()
		if err != nil {
			return
		}
		left := 0
		for _, p := range all {
			if p.parent == self && p.alive() { // their own children come to us when they have ended
				left++
				_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended, or be another user's
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
