package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// credential is the user that runs a cluster. The zero value stands for the current user.
type credential struct{ uid, gid uint32 }

// unprivileged returns the current user or, for root, the first of the users below that exists.
func unprivileged() (credential, error) {
	if os.Getuid() != 0 {
		return credential{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err == nil {
			return credential{uint32(uid), uint32(gid)}, nil
		}
	}
	return credential{},
		errors.New(
			"PostgreSQL refuses to run as root, and neither of the users `postgres` and `nobody` exists: run this as another user")
}

func (c credential) credential() *syscall.Credential {
	if c.uid == 0 {
		return nil
	}
	return &syscall.Credential{Uid: c.uid, Gid: c.gid}
}

// own makes the user the owner of a folder, and lets the user reach the folder.
func (c credential) own(dir string) error {
	if c.uid == 0 {
		return nil
	}
	if err := c.give(dir); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	info, err := os.Stat(parent)
	if err != nil || info.Mode().Perm()&0o001 != 0 {
		return err
	}
	return os.Chmod(parent, info.Mode().Perm()|0o011)
}

// give makes the user the owner of a file or a folder.
func (c credential) give(path string) error {
	if c.uid == 0 {
		return nil
	}
	if err := os.Chown(path, int(c.uid), int(c.gid)); err != nil {
		return fmt.Errorf("give %s to the user of PostgreSQL: %w", filepath.Base(path), err)
	}
	return nil
}
