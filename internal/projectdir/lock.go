package projectdir

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	lockRetry = 2 * time.Millisecond // between two tries to take a lock
	maxHolder = 4 << 10              // bytes that a holder writes of itself
	tmpSuffix = ".tmp"
)

// Holder says which process holds a lock. What is read of it comes from a file
// that a repository can carry, so it is for people only.
type Holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"` // program and command, without arguments
	Since   time.Time `json:"since"`
	// Temporary is the file that the holder writes before it puts it in the place of
	// another one. A holder that was killed leaves it to the next one to remove.
	Temporary string `json:"temporary,omitempty"`
}

// Known reports whether a holder wrote who it is.
func (h Holder) Known() bool { return h.PID > 0 && h.Command != "" }

// WaitOptions says how a process waits for a lock. Its zero value waits until the context
// ends and tells nothing.
type WaitOptions struct {
	Command     string        // of this process, for others that wait for it
	Max         time.Duration // to wait; 0 is without limit
	NoticeAfter time.Duration // after which Tell is called, once
	OnWait      func(Holder)  // of the process that is waited for; nil: nothing is told
}

// LockedError says that another process held a lock for too long.
type LockedError struct {
	Holder Holder
	Waited time.Duration
	err    error // of the context, or nil
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("it was locked for %s by %s", e.Waited.Round(time.Millisecond), e.Holder)
}

func (e *LockedError) Unwrap() error { return e.err }

// String names a holder in messages, in one line.
func (h Holder) String() string {
	if !h.Known() {
		return "a process that did not say which one it is"
	}
	return fmt.Sprintf("process %d (%q, since %s)", h.PID, cut(h.Command), h.Since.Local().Format(time.DateTime))
}

func cut(text string) string {
	const most = 100 // bytes
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Lock is a lock that this process holds. All writes that replace a file of the
// folder go through it.
type Lock struct {
	dir           *Dir
	file          *os.File
	temporary     string
	holderWritten bool // the file says who holds it
}

// Lock locks the file name, which it creates if necessary, for files whose
// temporary names begin with base. It waits for other holders as wait says, and
// returns a [*LockedError] when that takes too long or ctx ends.
func (d *Dir) Lock(ctx context.Context, name, base string, wait WaitOptions) (*Lock, error) {
	q := lockWait{dir: d, name: name, wait: wait, begin: time.Now(), noticed: wait.OnWait == nil}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		file, err := d.openLock(name)
		if err != nil {
			return nil, err
		}
		if err = q.lock(ctx, file); err == nil {
			var now bool
			if now, err = d.isCurrent(name, file); now {
				l := &Lock{dir: d, file: file, temporary: base + "." + rand.Text() + tmpSuffix}
				return l, l.writeHolder(name, base, wait.Command)
			}
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, err
		} // else the file was removed or replaced: another process locks the new one
	}
}

// openLock opens a file to be locked.
func (d *Dir) openLock(name string) (*os.File, error) {
	const everybody = 0o666 // a process that may write the folder may lock it
	file, _, err := d.OpenFile(name, os.O_RDWR|os.O_CREATE, everybody)
	if errors.Is(err, fs.ErrPermission) { // the file of another user can be locked, and not written
		file, _, err = d.OpenFile(name, os.O_RDONLY, 0)
	}
	return file, err
}

// isCurrent reports whether a name is still that of an open file.
func (d *Dir) isCurrent(name string, file *os.File) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	now, err := d.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(now, opened), err
}

// lockWait is one wait for a lock.
type lockWait struct {
	dir     *Dir
	name    string
	wait    WaitOptions
	begin   time.Time
	noticed bool
}

// lock locks an open file.
func (q *lockWait) lock(ctx context.Context, file *os.File) error {
	for {
		err := flock(file)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		waited := time.Since(q.begin)
		if q.wait.Max > 0 && waited >= q.wait.Max {
			return &LockedError{Holder: q.dir.holder(q.name), Waited: waited}
		}
		if !q.noticed && waited >= q.wait.NoticeAfter {
			q.noticed = true
			q.wait.OnWait(q.dir.holder(q.name))
		}
		timer := time.NewTimer(lockRetry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &LockedError{Holder: q.dir.holder(q.name), Waited: time.Since(q.begin), err: ctx.Err()}
		}
	}
}

func flock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// writeHolder writes who holds the lock, and removes what a holder that was killed left.
// A lock file that cannot be written locks all the same.
func (l *Lock) writeHolder(name, base, command string) error {
	if left := l.dir.holder(name).Temporary; isTemporary(left, base) {
		if err := l.dir.removeIfExists(left); err != nil {
			return errors.Join(err, l.Unlock())
		}
	}
	raw, err := json.Marshal(Holder{PID: os.Getpid(), Command: cut(command), Since: time.Now().UTC().Truncate(time.Second), Temporary: l.temporary})
	if err != nil {
		return errors.Join(fmt.Errorf("encode the holder of a lock: %w", err), l.Unlock())
	}
	if err := l.file.Truncate(0); err == nil {
		_, err = l.file.WriteAt(raw, 0)
		l.holderWritten = err == nil
	}
	return nil
}

// isTemporary reports whether a name is one that a lock made for its temporary file.
func isTemporary(name, base string) bool {
	middle, ok := strings.CutPrefix(name, base+".")
	middle, is := strings.CutSuffix(middle, tmpSuffix)
	other := func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') } // of rand.Text
	return ok && is && len(middle) == len(rand.Text()) && !strings.ContainsFunc(middle, other)
}

// holder reads who holds a lock, as far as it wrote that.
func (d *Dir) holder(name string) (h Holder) {
	raw, err := d.Read(name, maxHolder)
	if err != nil || json.Unmarshal(raw, &h) != nil {
		return Holder{}
	}
	return h
}

// Unlock ends the lock.
func (l *Lock) Unlock() error {
	if l.holderWritten {
		_ = l.file.Truncate(0) // it only helps people
	}
	return l.file.Close()
}

// Replace puts a new file in the place of name: it writes a temporary file, syncs
// it, and renames it. ready, if not nil, is called before the rename, and can stop
// it. A reader, and a process that comes after a crash, finds the old file or the
// new one.
func (l *Lock) Replace(name string, perm fs.FileMode, write func(io.Writer) error, ready func() error) error {
	root := l.dir.root
	file, err := root.OpenFile(l.temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	err = write(file)
	err = errors.Join(err, l.dir.sync(file), file.Close())
	if err == nil && ready != nil {
		err = ready()
	}
	if err == nil {
		if _, err = l.dir.Stat(name); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = root.Rename(l.temporary, name)
	}
	if err != nil {
		return errors.Join(err, l.dir.removeIfExists(l.temporary))
	}
	return l.dir.Sync()
}
