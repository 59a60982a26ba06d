package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// Lock is a folder that this process has locked.
type Lock struct {
	Dir      Dir
	disk     disk
	locks    []*flock.Flock // locks, in the order of locking
	isServer bool           // this process is the folder's server and owns server.json
	// serverLock holds the record lock of MarkServer, or is nil. The process must not open this file a second time:
	// closing any descriptor of the file releases the lock.
	serverLock *os.File
}

// InUseError reports that another process has locked the folder. PID and URL are zero if it
// has not written its address yet.
type InUseError struct {
	Dir Dir
	Address
}

func (e *InUseError) Error() string {
	if e.URL == "" {
		return fmt.Sprintf("another server is starting or stopping on %s", e.Dir)
	}
	return fmt.Sprintf("server with process id %d at %s already uses %s", e.PID, e.URL, e.Dir)
}

// Hint returns what a user can do, or "".
func (e *InUseError) Hint() string {
	if e.PID == 0 {
		return ""
	}
	return "use that server, or another folder with --data"
}

// lockWait is how long Acquire waits for a server that is shutting down. The kernel releases
// the locks of a killed process only after its last write.
const lockWait = time.Second

// Acquire creates the folder if needed, readable only by its owner, and locks it. It waits
// for at most lockWait, then returns an [*InUseError]. The kernel releases the lock at the
// end of the process, so a crash needs no cleanup. On Windows it returns an error.
func (f Dir) Acquire(ctx context.Context) (*Lock, error) {
	if err := checkSystem(); err != nil {
		return nil, err
	}
	if err := (disk{}).makeFolder(string(f)); err != nil {
		return nil, f.cannotMake(err)
	}
	h := &Lock{Dir: f}
	locks := []*flock.Flock{
		flock.New(f.path("lock"), flock.SetPermissions(0o600)),
		flock.New(string(f), flock.SetFlag(os.O_RDONLY)), // the lock file may be removed by hand
	}
	waiting, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for _, lock := range locks {
		ok, err := lock.TryLockContext(waiting, 10*time.Millisecond)
		if ok {
			h.locks = append(h.locks, lock)
			continue
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = f.inUseError()
		} else {
			err = fmt.Errorf("lock the data folder %s: %w", f, err)
		}
		return nil, errors.Join(err, h.releaseLocks())
	}
	return h, nil
}

// cannotMake explains why the folder cannot be created.
func (f Dir) cannotMake(err error) error {
	at := ""
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		if err = p.Err; p.Path != string(f) {
			at = p.Path + ": "
		}
	}
	return fmt.Errorf("the data folder %s cannot be made: %s%w: choose another one with --data or MAILROOM_DATA", f, at,
		err)
}

func (f Dir) inUseError() *InUseError {
	held := &InUseError{Dir: f}
	var err error
	if held.Address, err = f.Address(); err != nil {
		held.Address = Address{} // the server that holds the lock has not written its address yet
	}
	return held
}

// LostStoreError reports that the store of a folder is missing.
type LostStoreError struct {
	Dir      Dir
	Evidence string // a file that exists only in a folder with a store
}

func (e *LostStoreError) Error() string {
	return fmt.Sprintf("%s is missing or empty, but %s exists", e.Dir.Database(), e.Evidence)
}

// PrepareStore prepares the folder for a server. It returns a [*LostStoreError] if the store
// was lost and an [*UnfinishedCopyError] if it was not copied completely, creates an empty database file in a new
// folder, and removes the address of a killed server.
func (h *Lock) PrepareStore() error {
	info, err := os.Stat(h.Dir.Database())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("check the store: %w", err)
	}
	if err != nil || info.Size() == 0 {
		if _, err := os.Lstat(h.Dir.copyFile()); err == nil {
			return &UnfinishedCopyError{h.Dir.copyFile()}
		}
		for _, sign := range []string{
			h.Dir.Database() + "-wal", h.Dir.Database() + revisionSuffix, h.Dir.TokenFile(), h.Dir.path("server.json"),
		} {
			if info, err := os.Stat(sign); err == nil && info.Size() > 0 {
				return &LostStoreError{Dir: h.Dir, Evidence: sign}
			}
		}
	}
	// The database file is created here, readable only by its owner, because SQLite gives its other files the mode of
	// the database file. So other users cannot read the messages even if they can access the folder.
	if err := createIfMissing(h.Dir.Database()); err != nil {
		return err
	}
	h.isServer = true
	return h.Dir.removeAddress()
}

// createIfMissing creates an empty file, readable only by its owner, unless it exists.
func createIfMissing(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	return file.Close()
}

// Release removes the server's address, so that no command sends the token to another
// program on the same port, removes the file for its crash report if that is empty, and
// releases the locks.
func (h *Lock) Release() error {
	var err error
	if h.isServer {
		err = errors.Join(h.Dir.removeAddress(), h.removeEmptyCrashReport())
	}
	err = errors.Join(err, h.releaseLocks())
	if h.serverLock != nil { // last, because mailroom stop waits for this lock
		err = errors.Join(err, h.serverLock.Close())
	}
	return err
}

func (h *Lock) releaseLocks() error {
	var err error
	for _, lock := range h.locks {
		err = errors.Join(err, lock.Unlock())
	}
	return err
}

func (f Dir) removeAddress() error {
	if err := os.Remove(f.path("server.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the file with the server's address: %w", err)
	}
	return nil
}
