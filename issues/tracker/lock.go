package tracker

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
	lockRetry = 2 * time.Millisecond // between two attempts to lock
	maxHolder = 4 << 10              // bytes of a holder's record
	tmpSuffix = ".tmp"
)

// Holder describes the process that holds a lock. It is read from a file that a
// repository may contain, so it is for display only.
type Holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"` // program and command, without arguments
	Since   time.Time `json:"since"`
	// Temporary is the file that the holder writes and then renames. If the holder is killed, the next holder removes
	// the file.
	Temporary string `json:"temporary,omitempty"`
}

// Known reports whether the holder recorded its process.
func (h Holder) Known() bool { return h.PID > 0 && h.Command != "" }

// WaitOptions say how to wait for a lock. The zero value waits until the context ends and
// does not call OnWait.
type WaitOptions struct {
	Command     string        // command of this process, shown to processes that wait for it
	Max         time.Duration // longest wait; 0: no limit
	NoticeAfter time.Duration // time of waiting after which OnWait is called, once
	OnWait      func(Holder)  // gets the process that holds the lock; nil: no call
}

// LockedError is returned when another process holds the lock until the wait ends.
type LockedError struct {
	Holder Holder
	Waited time.Duration
	err    error // the context's error, or nil
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("locked for %s by %s", e.Waited.Round(time.Millisecond), e.Holder)
}

func (e *LockedError) Unwrap() error { return e.err }

// String describes the holder on one line.
func (h Holder) String() string {
	if !h.Known() {
		return "an unknown process"
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

// Lock is a lock that this process holds. A file of the folder can be replaced only with a Lock.
type Lock struct {
	dir           *Dir
	file          *os.File
	temporary     string
	holderWritten bool // the file contains the Holder
}

// Lock locks the file name, which it creates if necessary, for files whose
// temporary names begin with base. It waits for other holders as wait says,
// and returns a [*LockedError] when that takes too long or ctx ends.
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
		} // the file was removed or replaced: lock the new one
	}
}

// openLock opens or creates a lock file.
func (d *Dir) openLock(name string) (*os.File, error) {
	const perm = 0o666 // every process that may write the folder may lock it
	file, _, err := d.OpenFile(name, os.O_RDWR|os.O_CREATE, perm)
	if errors.Is(err, fs.ErrPermission) { // another user's file can be locked without write access
		file, _, err = d.OpenFile(name, os.O_RDONLY, 0)
	}
	return file, err
}

// isCurrent reports whether name still refers to the open file.
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

// lockWait is the state of one process that waits for a lock.
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

// writeHolder records this process in the lock file and removes the temporary file of a
// killed holder. A lock file that cannot be written still locks.
func (l *Lock) writeHolder(name, base, command string) error {
	if left := l.dir.holder(name).Temporary; isTemporary(left, base) {
		if err := l.dir.removeIfExists(left); err != nil {
			return errors.Join(err, l.Unlock())
		}
	}
	raw, err := json.Marshal(Holder{PID: os.Getpid(), Command: cut(command), Since: time.Now().UTC().Truncate(time.Second),
		Temporary: l.temporary})
	if err != nil {
		return errors.Join(fmt.Errorf("encode the lock holder: %w", err), l.Unlock())
	}
	if err := l.file.Truncate(0); err == nil {
		_, err = l.file.WriteAt(raw, 0)
		l.holderWritten = err == nil
	}
	return nil
}

// isTemporary reports whether name is a temporary file name that Lock generates.
func isTemporary(name, base string) bool {
	middle, ok := strings.CutPrefix(name, base+".")
	middle, is := strings.CutSuffix(middle, tmpSuffix)
	other := func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') } // outside the alphabet of rand.Text
	return ok && is && len(middle) == len(rand.Text()) && !strings.ContainsFunc(middle, other)
}

// holder reads the Holder from a lock file. It is zero if the file is unreadable.
func (d *Dir) holder(name string) (h Holder) {
	raw, err := d.Read(name, maxHolder)
	if err != nil || json.Unmarshal(raw, &h) != nil {
		return Holder{}
	}
	return h
}

// Unlock releases the lock.
func (l *Lock) Unlock() error {
	if l.holderWritten {
		_ = l.file.Truncate(0) // the record is for display only
	}
	return l.file.Close()
}

// Replace replaces the file name atomically: it writes a temporary file, syncs it and
// renames it. ready, if not nil, is called before the rename and can prevent it with
// an error. Readers see the old file or the new one, also after a crash.
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
