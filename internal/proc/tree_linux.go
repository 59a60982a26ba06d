package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// attributes makes the child the leader of a process group, and has the kernel
// kill it when we die; see Child.own for what that takes.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// tree finds the processes of a child. One goroutine uses it at a time.
type tree struct {
	belongs Belongs
	since   uint64             // nothing of the tree is older
	known   map[int]uint64     // pid to start of all that were found so far
	sent    map[int]sentSignal // what was signalled last

	shim      int         // of an isolated child; gets KILL only, as it ends with the rest; 0: none
	group     int         // what leads says is still its own
	ownsGroup func() bool // nil: no
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

// signal sends sig to every living process of the tree that did not get it yet,
// 0 to none, and returns those that lived. KILL is repeated.
func (t *tree) signal(sig syscall.Signal) (live []int, err error) {
	found, err := t.find()
	if sig != syscall.SIGKILL {
		found = slices.DeleteFunc(found, func(p process) bool { return p.pid == t.shim })
	}
	if sig == syscall.SIGKILL && len(found) > 0 {
		found, err = t.freeze(found)
	}
	if err != nil {
		// Out of files, perhaps. The group of a child that was not reaped
		// can be stopped without looking.
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

// freeze stops the tree where it is until nobody new is found: otherwise one
// that starts others while it is killed could outrun us.
func (t *tree) freeze(found []process) ([]process, error) {
	const most = 20 // rounds; a tree that is still ahead then is killed in the next look
	for range most {
		n, err := t.sendSignal(syscall.SIGSTOP, found)
		if n == 0 || err != nil {
			return found, nil // one that cannot be stopped is reported when it is killed
		}
		if found, err = t.find(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// sendSignal sends sig to those that did not get it as their last one. It returns to
// how many.
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
	all, err := processes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(t.members(all), func(p process) bool { return !p.alive() }), nil
}

// members returns what of all belongs to the tree, and remembers it: a process
// stays a member when the parent, or the group, that showed it has gone.
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
			// A group or session that a member leads is the tree's, and its
			// number is not used again while a member is in it.
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

// KillLeftovers kills what is left of an earlier life: the tree of the process
// earlier, if it is still that process on this host, and every process that
// belongs. It returns how many it killed, once they are gone. The error is the
// cause of ctx or a [SurvivorsError]. On systems other than Linux it does nothing.
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

// identify names a process that is not reaped yet.
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

// localID says where pids count: on which host, since which boot, in which
// namespace. Containers may share the first two.
func localID() (ID, error) {
	host, err := os.Hostname()
	if err != nil {
		return ID{}, fmt.Errorf("host name: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ID{}, fmt.Errorf("boot id: %w", err)
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ID{}, fmt.Errorf("pid namespace: %w", err)
	}
	return ID{Host: host, Boot: strings.TrimSpace(string(boot)), Namespace: namespace}, nil
}
