package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Names of the cgroups that a server makes: one for itself, because a cgroup with processes cannot have controlled ones
// below it (the "no internal processes" rule of cgroups(7)), and one for each child.
const (
	serverCgroup = "mailroom-server"
	childCgroups = "mailroom-child-"
)

// shimTasks is added to the limit of a child, whose cgroup has the shim too. Its threads count.
const shimTasks = 32

// Cgroup is a cgroup of version 2 that was delegated to this process: by systemd (Delegate=pids), which says so in an
// attribute of its folder, or by a container whose cgroup namespace begins with it. A process must not divide any
// other cgroup, even as root (CGROUP_DELEGATION.md of systemd).
type Cgroup struct {
	base string

	mu    sync.Mutex
	made  int
	stale []string // folders of children that had processes when the child ended
}

// OpenCgroup prepares the cgroup of this process for children with a limit of processes. For that it moves this
// process into a new cgroup below the present one.
func OpenCgroup() (*Cgroup, error) { return openCgroup("/proc/self", isMarked, isNamespaceRoot) }

func openCgroup(self string, marked, root func(dir string) bool) (*Cgroup, error) {
	dir, err := findCgroup(self)
	if err != nil {
		return nil, err
	}
	base, above := dir, filepath.Dir(dir)
	switch {
	case marked(dir), root(dir):
	case marked(above), filepath.Base(dir) == serverCgroup && root(above): // with DelegateSubgroup=, or after a restart there
		base = above
	default:
		return nil, fmt.Errorf("cgroup %s is not delegated to the server", dir)
	}
	controllers, err := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("read the controllers of a cgroup: %w", err)
	}
	if !slices.Contains(strings.Fields(string(controllers)), "pids") {
		return nil, fmt.Errorf("cgroup %s has no controller pids", base)
	}
	g := &Cgroup{base: base}
	g.stale = leftBehind(base)
	g.sweep()
	own := filepath.Join(base, serverCgroup)
	if base == dir {
		if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make a cgroup for the server: %w", err)
		}
		if err := writeCgroup(own, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
			return nil, err
		}
	}
	if err := writeCgroup(base, "cgroup.subtree_control", "+pids"); err != nil {
		if base == dir { // as it was: another process is in the cgroup
			err = errors.Join(err, writeCgroup(base, "cgroup.procs", strconv.Itoa(os.Getpid())), os.Remove(own))
		}
		return nil, err
	}
	return g, nil
}

// leftBehind returns the cgroups of children whose server has ended. A cgroup that a live server has just created is
// empty as well, so emptiness alone does not show it.
func leftBehind(base string) (dirs []string) {
	all, _ := filepath.Glob(filepath.Join(base, childCgroups+"*")) // the pattern is valid
	for _, dir := range all {
		server, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), childCgroups), "-")
		if pid, err := strconv.Atoi(server); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// findCgroup returns the folder of this process's cgroup of version 2.
func findCgroup(self string) (string, error) {
	groups, err := os.ReadFile(filepath.Join(self, "cgroup"))
	if err != nil {
		return "", fmt.Errorf("find the cgroup of the server: %w", err)
	}
	mounts, err := os.ReadFile(filepath.Join(self, "mountinfo"))
	if err != nil {
		return "", fmt.Errorf("find the cgroup of the server: %w", err)
	}
	for line := range strings.Lines(string(groups)) {
		path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		for mount := range strings.Lines(string(mounts)) {
			fields, kind, _ := strings.Cut(mount, " - ")
			f := strings.Fields(fields)
			if !strings.HasPrefix(kind, "cgroup2 ") || len(f) < 5 {
				continue
			}
			if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(f[3], "/")); ok && !strings.Contains(path, "..") {
				return filepath.Join(f[4], rest), nil
			}
		}
	}
	return "", errors.New("the server is in no cgroup of version 2 that is mounted")
}

// isMarked reports whether systemd has marked a cgroup as delegated.
func isMarked(dir string) bool {
	value := make([]byte, 8)
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// isNamespaceRoot reports whether a cgroup is the root of a cgroup namespace, but not the machine's
// root.
func isNamespaceRoot(dir string) bool {
	var inside, above unix.Stat_t
	if unix.Stat(dir, &inside) != nil || unix.Stat(filepath.Dir(dir), &above) != nil || inside.Dev == above.Dev {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "cgroup.type")) // the root of the machine has none
	return err == nil
}

func writeCgroup(dir, file, text string) error {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write %s of a cgroup: %w", file, err)
	}
	return nil
}

// childCgroup is the cgroup of one child.
type childCgroup struct {
	group *Cgroup
	dir   string
	open  *os.File
}

// create makes a cgroup for a child with at most so many processes and threads beside its shim.
func (g *Cgroup) create(limit uint64) (*childCgroup, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweep()
	g.made++
	dir := filepath.Join(g.base, fmt.Sprint(childCgroups, os.Getpid(), "-", g.made))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup for a program: %w", err)
	}
	err := writeCgroup(dir, "pids.max", strconv.FormatUint(limit+shimTasks, 10))
	var open *os.File
	if err == nil {
		open, err = os.Open(dir)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &childCgroup{g, dir, open}, nil
}

// startIn makes a process start in the cgroup, so that it never runs without its limit.
func (c *childCgroup) startIn(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD, attr.CgroupFD = true, int(c.open.Fd())
}

// remove removes the cgroup, or has it removed later if a process is still in it.
func (c *childCgroup) remove() {
	_ = c.open.Close() // of a folder
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	c.group.stale = append(c.group.stale, c.dir)
	c.group.sweep()
}

// sweep removes the cgroups that are empty by now. The caller holds mu, or is the only one.
func (g *Cgroup) sweep() {
	g.stale = slices.DeleteFunc(g.stale, func(dir string) bool {
		err := os.Remove(dir)
		return err == nil || errors.Is(err, os.ErrNotExist)
	})
}
