package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Capabilities that a shim without root needs to set up a namespace.
const (
	capSetPCap  = 8
	capSysAdmin = 21
	lastCap     = 63 // above the highest number of any kernel
)

// droppedCapabilities are the capabilities that a child of a root server loses: they
// give access to the memory and mounts of other processes, to devices and to the kernel.
func droppedCapabilities() []uintptr {
	return []uintptr{
		16, // CAP_SYS_MODULE
		17, // CAP_SYS_RAWIO
		19, // CAP_SYS_PTRACE
		capSysAdmin,
		24, // CAP_SYS_RESOURCE, which raises the limits of [Resources] again
		27, // CAP_MKNOD
		38, // CAP_PERFMON
		39, // CAP_BPF
	}
}

// namespaceAttributes adds a shim's namespaces to attr and reports whether the shim must map its own user. Root maps
// all users to themselves, so files keep their owners while capabilities apply inside the namespace only. For any
// other user only that user is mapped, and by the shim: this process is not dumpable (see [HideSelf]), so the kernel
// does not let it write the uid_map of its children. A root server whose child runs as another user needs no user
// namespace.
func namespaceAttributes(attr *syscall.SysProcAttr, u *User) (shimMaps bool) {
	attr.Cloneflags |= unix.CLONE_NEWNS | unix.CLONE_NEWPID
	switch {
	case os.Geteuid() != 0:
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.AmbientCaps = []uintptr{capSysAdmin, capSetPCap}
		return true
	case u == nil:
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1<<32 - 1}}
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = all, all, true
	}
	return false
}

// enterNamespace hides files in this process's mount namespace and mounts a /proc
// that shows its pid namespace only.
func (p *plan) enterNamespace() error {
	if p.Map {
		if err := mapSelf(p.UID, p.GID); err != nil {
			return err
		}
	}
	// Mounts that are made outside later appear here; mounts that are made here do not appear outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return &opError{"separate the mounts", err}
	}
	dir, err := os.Getwd()
	if err != nil {
		return &opError{"find the working directory", err}
	}
	shown, err := openAll(p.Show, p.Keep)
	if err != nil {
		return err
	}
	for _, path := range p.Hide {
		if err := hidePath(path, shown); err != nil {
			return err
		}
	}
	for _, s := range shown {
		_ = unix.Close(s.fd) // opened with O_PATH: nothing can be lost
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return &opError{"mount /proc", err}
	}
	// The current directory may lie below a hidden folder, so its path is resolved again.
	if err := os.Chdir(dir); err != nil {
		return &opError{"enter the working directory", err}
	}
	return p.dropCapabilities()
}

func mapSelf(uid, gid int) error {
	for _, w := range []struct{ file, text string }{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("%d %d 1", uid, uid)},
		{"gid_map", fmt.Sprintf("%d %d 1", gid, gid)},
	} {
		if err := os.WriteFile("/proc/self/"+w.file, []byte(w.text), 0); err != nil {
			return &opError{"map the user", err}
		}
	}
	return nil
}

// dropCapabilities limits the capabilities that the child can gain. The shim
// keeps its own, so the child cannot trace it.
func (p *plan) dropCapabilities() error {
	if p.User != nil || p.Kind == KindLandlock && os.Geteuid() != 0 {
		return nil // the child gets no capabilities
	}
	some := droppedCapabilities()
	for c := range uintptr(lastCap + 1) {
		if os.Geteuid() == 0 && !slices.Contains(some, c) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // above the highest capability
		}
		if errors.Is(err, unix.EPERM) && !canGain(c) {
			continue
		}
		if err != nil {
			return &opError{"drop capabilities", err}
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return &opError{"drop capabilities", err}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return &opError{"drop capabilities", err}
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&head, &data[0]); err != nil {
		return &opError{"drop capabilities", err}
	}
	return nil
}

// canGain reports whether a program that this process executes can gain the capability. A container may have dropped
// all capabilities, and with them the right to drop more, so dropCapabilities must not try.
func canGain(c uintptr) bool {
	in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
	return err != nil || in != 0
}

// handle is a path that the child may see, opened before its folder was hidden, so that it can be mounted at the same
// place again.
type handle struct {
	path   string
	fd     int
	folder bool
}

func openAll(files, folders []string) (all []handle, err error) {
	open := func(path string, folder bool) {
		var st unix.Stat_t
		fd, e := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		switch {
		case errors.Is(e, unix.ENOENT):
			return // retention removed it
		case e == nil:
			e = unix.Fstat(fd, &st)
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case e != nil:
			err = errors.Join(err, &opError{"open a shown path", e})
		case folder && kind == unix.S_IFDIR, !folder && kind == unix.S_IFREG:
			all = append(all, handle{path, fd, folder})
		default:
			_ = unix.Close(fd) // a link or special file stays hidden
		}
	}
	for _, path := range files {
		open(path, false)
	}
	for _, path := range folders {
		open(path, true)
	}
	return all, err
}

// hidePath hides path: an empty read-only tmpfs covers a folder, /dev/null a file.
// Shown paths below it are mounted again.
func hidePath(path string, shown []handle) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return &opError{"stat a hidden path", err}
	case !info.IsDir():
		if err := unix.Mount("/dev/null", path, "", unix.MS_BIND, ""); err != nil {
			return &opError{"hide a file", err}
		}
		return nil
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("mailroom", path, "tmpfs", flags, "size=1m,mode=0755"); err != nil {
		return &opError{"hide a folder", err}
	}
	for _, s := range shown {
		if within(s.path, path) {
			if err := s.mount(); err != nil {
				return err
			}
		}
	}
	if err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_RDONLY|flags, "size=1m,mode=0755"); err != nil {
		return &opError{"make a hidden folder read-only", err}
	}
	return nil
}

func (h handle) mount() error {
	if err := os.MkdirAll(filepath.Dir(h.path), 0o755); err != nil {
		return &opError{"create a mount point", err}
	}
	var err error
	if h.folder {
		err = os.MkdirAll(h.path, 0o755)
	} else {
		err = os.WriteFile(h.path, nil, 0o444)
	}
	if err != nil {
		return &opError{"create a mount point", err}
	}
	from := fmt.Sprintf("/proc/self/fd/%d", h.fd)
	if err := unix.Mount(from, h.path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return &opError{"show a file", err}
	}
	if h.folder {
		return nil
	}
	// In a user namespace a remount must keep the flags that the mount has.
	var st unix.Statfs_t
	if err := unix.Statfs(h.path, &st); err != nil {
		return &opError{"show a file", err}
	}
	locked := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME)
	if uintptr(st.Flags)&unix.ST_RELATIME != 0 {
		locked |= unix.MS_RELATIME
	}
	if err := unix.Mount("", h.path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|locked, ""); err != nil {
		return &opError{"make a shown file read-only", err}
	}
	return nil
}

// within reports whether path is folder or below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}
