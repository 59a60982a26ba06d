package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attributes makes the child lead a session, without the terminal of this process, and makes the
// kernel kill it when this process dies; see Child.runOwner.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// tree finds the processes of a child. One goroutine uses it at a time.
type tree struct {
	belongs Belongs
	since   uint64             // start of the oldest process that can belong
	known   map[int]uint64     // start by pid of all processes found so far
	sent    map[int]sentSignal // last signal by pid

	shim      int         // pid of the shim, 0: none; gets KILL only, because it ends when the other processes have
	group     int         // the group of the child, valid while ownsGroup
	ownsGroup func() bool // reports that group is not reused; nil: it may be
}

type sentSignal struct {
	start  uint64
	signal syscall.Signal
}

func newTree(id ID, belongs Belongs) *tree {
	t := &tree{
		belongs: belongs, since: id.Start, group: id.Group,
		known: map[int]uint64{}, sent: map[int]sentSignal{},
	}
	if id.PID > 0 {
		t.known[id.PID] = id.Start
	}
	return t
}

// signal sends sig to every living process of the tree that has not got this signal yet, and returns their pids. If
// sig is 0, it only lists them. KILL is sent again each time.
func (t *tree) signal(sig syscall.Signal) (live []int, err error) {
	found, err := t.find()
	if sig != syscall.SIGKILL {
		found = slices.DeleteFunc(found, func(p process) bool { return p.pid == t.shim })
	}
	if sig == syscall.SIGKILL && len(found) > 0 {
		found, err = t.freeze(found)
	}
	if err != nil {
		// The scan may fail for lack of file descriptors. As long as the child is not reaped, its group can be
		// signalled without a scan.
		if sig != 0 && t.ownsGroup != nil && t.ownsGroup() {
			err = errors.Join(err, ignoreGone(syscall.Kill(-t.group, sig)))
		}
		return nil, err
	}
	if sig != 0 {
		_, err = t.sendSignal(sig, found)
	}
	for _, p := range found {
		live = append(live, p.pid)
	}
	return live, err
}

// freezeWait bounds the wait for the processes of a tree to stop. One that waits for a disk may take longer.
const freezeWait = time.Second

// freeze sends STOP until a scan finds that all processes have stopped. Otherwise a tree that forks fast could outrun
// KILL. It is not enough to send STOP once: a process in the middle of a fork finishes the fork before it stops,
// which takes long on a busy machine. If the process is then killed, nothing may show that its new child belongs to
// the tree, because only the parent showed it.
func (t *tree) freeze(found []process) ([]process, error) {
	until := time.Now().Add(freezeWait)
	for pause := minPoll / 4; ; pause = min(2*pause, maxPoll) {
		n, err := t.sendSignal(syscall.SIGSTOP, found)
		if err != nil || n == 0 && frozen(found) || time.Now().After(until) {
			return found, nil // KILL reports the processes that cannot be signalled; the next scan goes on where this one ends
		}
		if n == 0 {
			time.Sleep(pause)
		}
		if found, err = t.find(); err != nil {
			return nil, err
		}
	}
}

// frozen reports whether no process of a tree can fork, because each process has stopped, or waits in vfork for a
// child that has stopped.
func frozen(all []process) bool {
	stopped := func(p process) bool { return strings.IndexByte("TtZX", p.state) >= 0 }
	waited := map[int]bool{} // for
	for _, p := range all {
		if stopped(p) {
			waited[p.parent] = true
		}
	}
	return !slices.ContainsFunc(all, func(p process) bool { return !stopped(p) && (p.state != 'D' || !waited[p.pid]) })
}

// sendSignal sends sig to each process that did not get this signal last, and KILL always. It returns how many
// processes it signalled.
func (t *tree) sendSignal(sig syscall.Signal, to []process) (n int, err error) {
	for _, p := range to {
		last := sentSignal{p.start, sig}
		if sig != syscall.SIGKILL && t.sent[p.pid] == last {
			continue
		}
		if e := p.signal(sig); e != nil {
			err = errors.Join(err, fmt.Errorf("%v to process %d: %w", sig, p.pid, e))
			continue
		}
		t.sent[p.pid] = last
		n++
	}
	return n, err
}

// find returns the living processes of the tree.
func (t *tree) find() ([]process, error) {
	all, err := processes(t.skip())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(t.members(all), func(p process) bool { return !p.alive() }), nil
}

// skip returns a function that reports whether a scan need not read a process, which is five times as fast as to read
// it. The function is nil if the scan must read all.
//
// The child leads a session, and a process that its tree starts is in the session of its parent, or in one that it
// begins itself. So a session whose leader is older than the child has no process of the tree, except one that has the
// mark and that a server outside of the tree has started. Kernel threads are in session 0, as processes that another
// pid namespace put into this one.
func (t *tree) skip() func(pid int) bool {
	if t.belongs != nil || t.since == 0 {
		return nil
	}
	older := map[int]bool{0: true} // by session
	return func(pid int) bool {
		session, err := unix.Getsid(pid)
		if err != nil {
			return false
		}
		skip, known := older[session]
		if !known {
			leader, err := readProcess(session)
			skip = err == nil && leader.start < t.since // a leader that has ended says nothing
			older[session] = skip
		}
		return skip
	}
}

// tick is the unit of processor times in /proc: USER_HZ, which is 100 on all architectures that Go supports.
const tick = 10 * time.Millisecond

// processorTime returns how much processor time the child's processes have used, or 0 if it is unknown. Only the
// goroutine of Run may call it, before it stops the tree.
func (c *Child) processorTime() (sum time.Duration) {
	found, err := c.tree.find()
	if err != nil {
		return 0
	}
	for _, p := range found {
		sum += time.Duration(p.used) * tick
	}
	return sum
}

// members returns the processes of all that belong to the tree and remembers them: a
// process stays a member after the parent or group that revealed it has ended.
func (t *tree) members(all []process) []process {
	self := os.Getpid()
	in := make(map[int]bool)
	groups, sessions := make(map[int]bool), make(map[int]bool)
	var found []process
	for pass, more := 1, true; more; pass++ {
		more = false
		for _, p := range all {
			if in[p.pid] || p.pid == self || p.start < t.since {
				continue
			}
			start, seen := t.known[p.pid]
			switch {
			case seen && start == p.start, in[p.parent], groups[p.group], sessions[p.session]:
			case pass == 1 && t.hasMark(p):
			default:
				continue
			}
			in[p.pid], t.known[p.pid], more = true, p.start, true
			found = append(found, p)
			// A group or session that a member leads belongs to the tree. Its id is not reused while a member is in
			// it.
			if _, led := t.known[p.group]; led {
				groups[p.group] = true
			}
			if _, led := t.known[p.session]; led {
				sessions[p.session] = true
			}
		}
	}
	return found
}

func (t *tree) hasMark(p process) bool {
	if t.belongs == nil || p.kernel {
		return false
	}
	env := p.environ()
	return len(env) > 0 && t.belongs(func(name string) (string, bool) { return lookup(env, name) })
}

func lookup(env, name string) (string, bool) {
	for line := range strings.SplitSeq(env, "\x00") {
		if v, ok := strings.CutPrefix(line, name); ok && strings.HasPrefix(v, "=") {
			return v[1:], true
		}
	}
	return "", false
}

// KillLeftovers kills processes that an earlier instance of this program left: the
// process tree of the process earlier, if that still runs on this host, and every
// process for which belongs returns true. It waits until they have ended and returns how
// many it killed. The error is the cause of ctx or a [SurvivorsError]. On systems other
// than Linux it does nothing.
func KillLeftovers(ctx context.Context, earlier ID, belongs Belongs) (int, error) {
	here, err := localID()
	if err != nil {
		return 0, err
	}
	t := newTree(ID{}, belongs)
	if earlier.PID > 0 && earlier.Host == here.Host && earlier.Boot == here.Boot && earlier.Namespace == here.Namespace {
		t = newTree(earlier, belongs)
	}
	err = t.stop(ctx, []stopStage{{syscall.SIGKILL, killWait}}, nil)
	return len(t.sent), err
}

// identify returns the ID of a process that is not reaped yet.
func identify(pid int) (ID, error) {
	id, err := localID()
	if err != nil {
		return ID{}, err
	}
	p, err := readProcess(pid)
	if err != nil {
		return ID{}, fmt.Errorf("identify the child: %w", err)
	}
	id.PID, id.Group, id.Start = pid, pid, p.start
	return id, nil
}

// localID returns an ID with host, boot and pid namespace, the scope of a pid.
// Containers may share the first two.
func localID() (ID, error) {
	host, err := os.Hostname()
	if err != nil {
		return ID{}, fmt.Errorf("read the host name: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ID{}, fmt.Errorf("read the boot id: %w", err)
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ID{}, fmt.Errorf("read the pid namespace: %w", err)
	}
	return ID{Host: host, Boot: strings.TrimSpace(string(boot)), Namespace: namespace}, nil
}
