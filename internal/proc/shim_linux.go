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

// shimName is argument 0 of a shim, the process between this one and an isolated
// child. A shim is this program, executed again.
const shimName = "mailroom-shim"

// File descriptors of a shim beside those that the child inherits.
const (
	shimOrders  = 3 // reads the plan, one line of JSON; end of file means that the parent died
	shimReports = 4 // writes reports, one line of JSON each
)

// plan is what a shim has to do.
type plan struct {
	Path string   `json:"path"` // program; "": none
	Args []string `json:"args"`
	Isolation

	// Map makes the shim map its own user, because its parent may not.
	Map bool `json:"map,omitempty"`
	UID int  `json:"uid"`
	GID int  `json:"gid"`
	// Probe is a file that must be unreadable once the sandbox is set up.
	Probe string `json:"probe,omitempty"`
}

// report is a message of a shim to its parent: the child has started, failed to start, or exited.
type report struct {
	Op      string        `json:"op,omitempty"` // name of the operation that failed
	Errno   syscall.Errno `json:"errno,omitempty"`
	Failed  string        `json:"failed,omitempty"`
	Started bool          `json:"started,omitempty"`
	Exited  bool          `json:"exited,omitempty"`
	Code    int           `json:"code"`
	Signal  int           `json:"signal,omitempty"`
}

// init runs the shim if this process was started as one. It is here and not in main
// so that every program that starts isolated children, tests included, can be their
// shim, and so that a shim skips the initialization of later packages.
func init() {
	if len(os.Args) == 1 && os.Args[0] == shimName {
		os.Exit(runShim())
	}
}

// runShim sets up the sandbox, starts the child and reaps its orphans. It ends when
// no descendant is left, or when its parent has ended. It returns the exit status.
func runShim() int {
	runtime.LockOSThread() // the sandbox applies to the thread that forks
	if unblockSignals() != nil {
		return 125
	}
	if HideDescriptors() != nil { // its pipes, and what the parent was started with
		return 125
	}
	orders, reports := os.NewFile(shimOrders, "orders"), os.NewFile(shimReports, "reports")
	// Signals to the tree are meant for the child. The shim catches these signals and does not ignore them, because
	// the child would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	send := func(r report) bool { return json.NewEncoder(reports).Encode(r) == nil }
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
		send(failureReport(err))
		return 125
	}
	if p.Path == "" {
		send(report{Started: true})
		return 0
	}
	child, err := p.start()
	if err != nil {
		send(failureReport(err))
		return 126
	}
	if !send(report{Started: true}) || releaseStreams() != nil {
		endDescendants()
		return 125
	}
	go func() { // archtest: this is the shim's own process, which ends with this goroutine.
		_, _ = io.Copy(io.Discard, reader) // wait for the end of file
		endDescendants()
		os.Exit(125)
	}()
	reap(child, send)
	return 0
}

// unblockSignals executes the shim again without blocked signals, if a supervisor started it with some blocked. The
// child would inherit them, and INT and TERM would not stop it. The shim cannot unblock them for the child in another
// way, because the Go runtime starts programs with the signal mask that it was itself started with.
func unblockSignals() error {
	var none, blocked unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, &blocked); err != nil || blocked == none {
		return err
	}
	return syscall.Exec("/proc/self/exe", []string{shimName}, os.Environ())
}

// opError is an error with the operation that failed.
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

// err returns the error of a report, or nil. A program that cannot be executed
// yields the error that package os would return.
func (r report) err(path string) error {
	switch {
	case r.Failed == "":
		return nil
	case r.Op == opExec:
		return &os.PathError{Op: r.Op, Path: path, Err: r.Errno}
	}
	return fmt.Errorf("isolate the program: %w", reported{r})
}

const opExec = "fork/exec"

// reported is an error of the shim, as its parent got it. It wraps the number of the system call that failed.
type reported struct{ report }

func (r reported) Error() string { return r.Failed }

func (r reported) Unwrap() error {
	if r.Errno == 0 {
		return nil
	}
	return r.Errno
}

// prepare sets up the sandbox and the limits that the child inherits.
func (p *plan) prepare() error {
	if os.Getpid() != 1 {
		// Orphans become children of this process, where a scan of the tree finds them.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return &opError{"adopt orphans", err}
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
		to := min(l.value, now.Max) // only root can raise the hard limit
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: to, Max: to}); err != nil {
			return &opError{"set a resource limit", err}
		}
	}
	return nil
}

// start starts the child in its own session. A program that shares the terminal of the server could read what a
// person types there, and type itself.
func (p *plan) start() (pid int, err error) {
	attr := &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
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

// releaseStreams closes the shim's copies of the child's pipes, so that the other
// ends see end of file when the child closes its own.
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

// reap waits for all children of the shim, and reports how the child with this pid ended.
func reap(child int, send func(report) bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // ECHILD: no children
			return
		case pid != child:
			continue
		}
		r := report{Exited: true, Code: status.ExitStatus()}
		if status.Signaled() {
			r.Code, r.Signal = -1, int(status.Signal())
		}
		send(r) // fails only if the parent has ended, which the other goroutine notices
	}
}

// endDescendants kills the descendants of this process. The first process of a pid namespace does nothing here,
// because its exit kills all others.
func endDescendants() {
	if os.Getpid() == 1 {
		return
	}
	const rounds = 500
	self := os.Getpid()
	for range rounds {
		all, err := processes(nil)
		if err != nil {
			return
		}
		left := 0
		for _, p := range all {
			if p.parent == self && p.alive() { // grandchildren become children when their parent dies
				left++
				_ = syscall.Kill(p.pid, syscall.SIGKILL) // the process may have ended, or belong to another user
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
