package folder

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

// Held is a folder whose lock this process holds.
type Held struct {
	Folder Folder
	locks  []*flock.Flock // in the order taken
	server bool           // this process is the folder's server: server.json is its own
	mark   *os.File       // with the record lock of Serve; nil: none. Closing any other file of this name in this process drops the lock
}

// HeldError says that another server holds a folder. PID and URL are zero if it
// has not said yet where it is.
type HeldError struct {
	Folder Folder
	Address
}

func (e *HeldError) Error() string {
	if e.URL == "" {
		return fmt.Sprintf("another server is starting or stopping on %s", e.Folder)
	}
	return fmt.Sprintf("a server with process id %d at %s already holds %s", e.PID, e.URL, e.Folder)
}

// lockWait is how long Hold waits for a server that is about to end. The kernel
// releases the locks of a killed process only after its last write has ended.
const lockWait = time.Second

// Hold makes the folder if need be, readable by its owner only, and takes its
// lock, waiting for lockWait at most. A [*HeldError] says who holds it. The lock
// ends with the process, so a crash leaves nothing to clean up.
func (f Folder) Hold(ctx context.Context) (*Held, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	h := &Held{Folder: f}
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
			err = f.heldError()
		} else {
			err = fmt.Errorf("lock the data folder %s: %w", f, err)
		}
		return nil, errors.Join(err, h.unlock())
	}
	return h, nil
}

func (f Folder) heldError() *HeldError {
	held := &HeldError{Folder: f}
	var err error
	if held.Address, err = f.Address(); err != nil {
		held.Address = Address{} // it holds the lock and has not announced itself
	}
	return held
}

// LostStoreError says that a folder has no store, although it had one.
type LostStoreError struct {
	Folder Folder
	Sign   string // the file that only a folder with a store has
}

func (e *LostStoreError) Error() string {
	return fmt.Sprintf("%s is missing or empty, but %s is there", e.Folder.Database(), e.Sign)
}

// PrepareStore readies the folder for a server: it refuses with a
// [*LostStoreError] a folder that has lost its store, makes an empty database
// file where there is none, and removes the address of a killed server.
func (h *Held) PrepareStore() error {
	info, err := os.Stat(h.Folder.Database())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the store: %w", err)
	}
	if err != nil || info.Size() == 0 {
		for _, sign := range []string{
			h.Folder.Database() + "-wal", h.Folder.Database() + sqlite.RevisionSuffix, h.Folder.TokenFile(), h.Folder.path("server.json"),
		} {
			if info, err := os.Stat(sign); err == nil && info.Size() > 0 {
				return &LostStoreError{Folder: h.Folder, Sign: sign}
			}
		}
	}
	// The store's files take their mode from the first of them: other users do not
	// read the messages, also where the folder is open to them.
	if err := touch(h.Folder.Database()); err != nil {
		return err
	}
	h.server = true
	return h.Folder.withdraw()
}

// touch makes an empty file for its owner unless there is one.
func touch(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	return file.Close()
}

// Release removes the address, so that no token is sent to whoever gets the
// port next, and gives the lock up.
func (h *Held) Release() error {
	var err error
	if h.server {
		err = h.Folder.withdraw()
	}
	err = errors.Join(err, h.unlock())
	if h.mark != nil { // last: a command that stops the server waits for it
		err = errors.Join(err, h.mark.Close())
	}
	return err
}

func (h *Held) unlock() error {
	var err error
	for _, lock := range h.locks {
		err = errors.Join(err, lock.Unlock())
	}
	return err
}

func (f Folder) withdraw() error {
	if err := os.Remove(f.path("server.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the address of the server: %w", err)
	}
	return nil
}
