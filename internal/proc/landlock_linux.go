package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The access rights of landlock(7).
const (
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
	allRights = unix.LANDLOCK_ACCESS_FS_TRUNCATE<<1 - 1 // all rights up to it: those of version 3

	// minLandlockVersion is the version of Linux 6.2. Earlier versions cannot stop the
	// child from truncating a hidden file.
	minLandlockVersion = 3
)

func landlockVersion() (int, error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(v), nil
}

// restrict denies this thread and its descendants access to hidden paths. A rule of Landlock can only allow. So
// restrict allows every path that is not hidden and does not lead to a hidden path. In a folder that leads to a
// hidden path the child can list names, but not create or remove files.
func (p *plan) restrict() error {
	version, err := landlockVersion()
	if err == nil && version < minLandlockVersion {
		err = unix.EOPNOTSUPP
	}
	if err != nil {
		return &opError{"use Landlock", err}
	}
	rules := landlock{file: fileRights, folder: allRights, hide: p.Hide}
	attr := unix.LandlockRulesetAttr{}
	if version >= 5 {
		rules.file |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
		rules.folder |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
	}
	attr.Handled_access_fs = rules.folder
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)),
		unsafe.Offsetof(attr.Quiet_access_fs), 0)
	if errno != 0 {
		return &opError{"use Landlock", errno}
	}
	rules.fd = int(fd)
	defer unix.Close(rules.fd)
	if err := rules.allowAround("/"); err != nil {
		return &opError{"allow unhidden files", err}
	}
	for _, path := range p.Show {
		if err := rules.allow(path, unix.LANDLOCK_ACCESS_FS_READ_FILE); err != nil {
			return &opError{"allow shown files", err}
		}
	}
	for _, path := range p.Keep {
		if err := rules.allow(path, rules.folder); err != nil {
			return &opError{"allow shown files", err}
		}
	}
	if err := p.dropCapabilities(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return &opError{"use Landlock", err}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return &opError{"use Landlock", errno}
	}
	return nil
}

// landlock builds a Landlock ruleset.
type landlock struct {
	fd           int
	file, folder uint64 // all rights of a file and of a folder
	hide         []string
}

// allowAround allows everything in folder except hidden paths. The folder is an ancestor of a hidden path.
func (l *landlock) allowAround(folder string) error {
	if err := l.allow(folder, unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		switch {
		case slices.Contains(l.hide, path), e.Type()&os.ModeSymlink != 0: // the rules of its target apply to a link
			continue
		case slices.ContainsFunc(l.hide, func(h string) bool { return within(h, path) }):
			err = l.allowAround(path)
		case e.IsDir():
			err = l.allow(path, l.folder)
		default:
			err = l.allow(path, l.file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// allow adds a rule for a file or a folder. A missing path is no error.
func (l *landlock) allow(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EACCES):
		return nil // a path without a rule cannot be opened
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil
	case unix.S_IFDIR:
	default:
		rights &= l.file
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(l.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
