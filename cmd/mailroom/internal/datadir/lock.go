package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"

	"mailroom/store/sqlite"
)

// Lock is a folder whose lock this process holds.
type Lock struct {
	Dir        Dir
	locks      []*flock.Flock // in the order taken
	isServer   bool           // this process is the folder's server: server.json is its own
	serverLock *os.File       // with the record lock of Serve; nil: none. Closing any other file of this name in this process drops the lock
}

// InUseError says that another server holds a folder. PID and URL are zero if it
// has not said yet where it is.
type InUseError struct {
	Dir Dir
	Address
}

func (e *InUseError) Error() string {
	if e.URL == "" {
		return fmt.Sprintf("another server is starting or stopping on %s", e.Dir)
	}
	return fmt.Sprintf("a server with process id %d at %s already holds %s", e.PID, e.URL, e.Dir)
}

// lockWait is how long Hold waits for a server that is about to end. The kernel
// releases the locks of a killed process only after its last write has ended.
const lockWait = time.Second

// Acquire makes the folder if need be, readable by its owner only, and takes its
// lock, waiting for lockWait at most. A [*HeldError] says who holds it. The lock
// ends with the process, so a crash leaves nothing to clean up.
func (f Dir) Acquire(ctx context.Context) (*Lock, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
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

func (f Dir) inUseError() *InUseError {
	held := &InUseError{Dir: f}
	var err error
	if held.Address, err = f.Address(); err != nil {
		held.Address = Address{} // it holds the lock and has not announced itself
	}
	return held
}

// LostStoreError says that a folder has no store, although it had one.
type LostStoreError struct {
	Dir      Dir
	Evidence string // the file that only a folder with a store has
}

func (e *LostStoreError) Error() string {
	return fmt.Sprintf("%s is missing or empty, but %s is there", e.Dir.Database(), e.Evidence)
}

// PrepareStore readies the folder for a server: it refuses with a
// [*LostStoreError] a folder that has lost its store, makes an empty database
// file where there is none, and removes the address of a killed server.
func (h *Lock) PrepareStore() error {
	info, err := os.Stat(h.Dir.Database())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the store: %w", err)
	}
	if err != nil || info.Size() == 0 {
		for _, sign := range []string{
			h.Dir.Database() + "-wal", h.Dir.Database() + sqlite.RevisionSuffix, h.Dir.TokenFile(), h.Dir.path("server.json"),
		} {
			if info, err := os.Stat(sign); err == nil && info.Size() > 0 {
				return &LostStoreError{Dir: h.Dir, Evidence: sign}
			}
		}
	}
	// The store's files take their mode from the first of them: other users do not
	// read the messages, also where the folder is open to them.
	if err := createIfMissing(h.Dir.Database()); err != nil {
		return err
	}
	h.isServer = true
	return h.Dir.removeAddress()
}

// createIfMissing makes an empty file for its owner unless there is one.
func createIfMissing(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	return file.Close()
}

// Release removes the address, so that no token is sent to whoever gets the
// port next, and gives the lock up.
func (h *Lock) Release() error {
	var err error
	if h.isServer {
		err = h.Dir.removeAddress()
	}
	err = errors.Join(err, h.releaseLocks())
	if h.serverLock != nil { // last: a command that stops the server waits for it
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
		return fmt.Errorf("remove the address of the server: %w", err)
	}
	return nil
}
