package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// cgroupFiles is a folder with what the kernel has below /proc/self, and a tree of cgroups as files. It is no file
// system of cgroups: nothing limits a process there.
type cgroupFiles struct {
	t          *testing.T
	self, tree string
}

// newCgroupFiles puts this process into the cgroup at path, below a mount of the cgroup at root.
func newCgroupFiles(t *testing.T, path, root string) *cgroupFiles {
	t.Helper()
	f := &cgroupFiles{t, t.TempDir(), t.TempDir()}
	f.write(filepath.Join(f.self, "cgroup"), "8:pids:/elsewhere\n0::"+path+"\n")
	f.write(filepath.Join(f.self, "mountinfo"),
		fmt.Sprintf(
			"22 1 0:20 / /proc rw - proc proc rw\n30 1 0:26 %s %s rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			root, f.tree))
	return f
}

func (f *cgroupFiles) write(file, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *cgroupFiles) read(path ...string) string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{f.tree}, path...)...))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// only returns a function that is true of one folder of the tree.
func (f *cgroupFiles) only(path string) func(string) bool {
	return func(dir string) bool { return path != "" && dir == filepath.Join(f.tree, path) }
}

// TestACgroupIsDividedOnlyIfItIsDelegated has the cgroups of units, of containers, and of neither.
func TestACgroupIsDividedOnlyIfItIsDelegated(t *testing.T) {
	for name, c := range map[string]struct {
		path, mount  string
		marked, root string // folders that are so
		controllers  string
		base         string // of the children; "": none
		want         string // in the error
	}{
		"a unit with Delegate=": {"/system.slice/mailroom.service", "/", "/system.slice/mailroom.service", "",
			"cpu pids", "/system.slice/mailroom.service", ""},
		"with DelegateSubgroup= too": {"/system.slice/mailroom.service/main", "/", "/system.slice/mailroom.service", "",
			"pids", "/system.slice/mailroom.service", ""},
		"a container":                    {"/", "/", "", "/", "pids", "/", ""},
		"a second server in a container": {"/mailroom-server", "/", "", "/", "pids", "/", ""},
		"a mount of a part":              {"/docker/1/a", "/docker/1", "/a", "", "pids", "/a", ""},
		"a unit without it": {"/system.slice/mailroom.service", "/", "", "", "pids", "",
			"is not delegated to the server"},
		"another service in a container": {"/init.scope", "/", "", "/", "pids", "", "is not delegated to the server"},
		"without the controller":         {"/a", "/", "/a", "", "cpu memory", "", "has no controller pids"},
		"outside the mount":              {"/../b", "/", "/b", "", "pids", "", "no cgroup of version 2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCgroupFiles(t, c.path, c.mount)
			within := strings.TrimPrefix(c.path, strings.TrimSuffix(c.mount, "/"))
			f.write(filepath.Join(f.tree, within, "cgroup.procs"), "")
			for _, dir := range []string{within, filepath.Dir(within)} {
				f.write(filepath.Join(f.tree, dir, "cgroup.controllers"), c.controllers+"\n")
			}
			g, err := openCgroup(f.self, f.only(c.marked), f.only(c.root))
			if c.base == "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got error %v, want one with %q", err, c.want)
				}
				return
			}
			if err != nil || g.base != filepath.Join(f.tree, c.base) {
				t.Fatalf("got %+v, %v; want %s", g, err, c.base)
			}
			if got := f.read(c.base, "cgroup.subtree_control"); got != "+pids" {
				t.Errorf("subtree_control: %q", got)
			}
			if moved := within == c.base; moved && f.read(c.base, serverCgroup, "cgroup.procs") != fmt.Sprint(os.Getpid()) {
				t.Error("the server is in the cgroup that it divides, which the kernel refuses")
			}
		})
	}
}

// TestAChildStartsInACgroupWithItsLimit also has cgroups that a server left, and one that is not empty at the end.
func TestAChildStartsInACgroupWithItsLimit(t *testing.T) {
	f := newCgroupFiles(t, "/a", "/")
	f.write(filepath.Join(f.tree, "a", "cgroup.controllers"), "pids\n")
	const gone = 1 << 30 // no process has this id
	for _, dir := range []string{fmt.Sprint(childCgroups, gone, "-1"), fmt.Sprint(childCgroups, os.Getppid(), "-1")} {
		if err := os.Mkdir(filepath.Join(f.tree, "a", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g, err := openCgroup(f.self, f.only("a"), f.only(""))
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(g.base, childCgroups+"*")); len(left) != 1 ||
		!strings.Contains(left[0], fmt.Sprint(os.Getppid())) {
		t.Errorf("left after the start: %q, want those of a live process", left)
	}
	child, err := g.create(60)
	if err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{}
	child.startIn(attr)
	var at, want syscall.Stat_t
	if err := syscall.Fstat(attr.CgroupFD, &at); err != nil || syscall.Stat(child.dir, &want) != nil ||
		at.Ino != want.Ino || !attr.UseCgroupFD {
		t.Errorf("starts in another folder: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(child.dir, "pids.max")); err != nil ||
		string(got) != fmt.Sprint(60+shimTasks) {
		t.Errorf("pids.max is %q, %v", got, err)
	}
	child.remove() // the file system of the test keeps a folder with files, as that of cgroups one with processes
	if len(g.stale) != 1 {
		t.Errorf("%d cgroups wait to be removed, want that of the child", len(g.stale))
	}
	if err := os.Remove(filepath.Join(child.dir, "pids.max")); err != nil {
		t.Fatal(err)
	}
	next, err := g.create(60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(child.dir); err == nil || next.dir == child.dir {
		t.Errorf("%s is still there", child.dir)
	}
	next.remove()
}
