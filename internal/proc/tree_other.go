//go:build unix && !linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// unread returns false, unknown: these systems have no common way to ask how much data a pipe holds.
func unread(*os.File) bool { return false }

// attributes makes the child lead a session, without the terminal of this process, and so a process group. These
// systems cannot kill the child when this process dies.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// tree is the process group of a child.
type tree struct {
	group     int
	shim      int         // always 0: there is no shim
	ownsGroup func() bool // reports whether the child is not reaped yet
	last      syscall.Signal
}

// processorTime returns 0, unknown: these systems have no common way to measure it.
func (c *Child) processorTime() time.Duration { return 0 }

func newTree(id ID, _ Belongs) *tree { return &tree{group: id.Group} }

// signal sends sig to the process group, unless sig was sent last, and returns the group's leader while a process of
// the group lives. If sig is 0, it only checks. KILL is sent again each time.
func (t *tree) signal(sig syscall.Signal) (live []int, err error) {
	if sig == t.last && sig != syscall.SIGKILL {
		sig = 0
	}
	err = syscall.Kill(-t.group, sig)
	switch {
	case errors.Is(err, syscall.ESRCH), errors.Is(err, syscall.EPERM):
		return nil, nil // EPERM: only zombies are left
	case err != nil:
		return nil, fmt.Errorf("signal the process group: %w", err)
	}
	if sig != 0 {
		t.last = sig
	}
	return []int{t.group}, nil
}

// KillLeftovers does nothing here: there is no portable way to detect a reused pid.
func KillLeftovers(context.Context, ID, Belongs) (int, error) { return 0, nil }

func identify(pid int) (ID, error) {
	host, err := os.Hostname()
	if err != nil {
		return ID{}, fmt.Errorf("host name: %w", err)
	}
	return ID{PID: pid, Group: pid, Host: host}, nil
}

// Probe returns KindNone and why no other kind is supported.
func Probe(ctx context.Context) (Kind, error) { return KindNone, Try(ctx, KindNamespace) }

// Try returns an error for every kind but KindNone.
func Try(_ context.Context, kind Kind) error {
	if kind == KindNone {
		return nil
	}
	return errors.New("isolation is supported on Linux only")
}

// runShimOwner does the work of runOwner, because without isolation no shim is needed.
func (c *Child) runShimOwner(cmd *exec.Cmd, started chan<- error) {
	i := c.spec.Isolation
	if err := Try(context.Background(), i.Kind); err != nil {
		started <- err
		return
	}
	if u := i.User; u != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	c.runOwner(cmd, started)
}

func (c *Child) endShim() *SurvivorsError { return nil }
