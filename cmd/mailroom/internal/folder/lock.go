package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gofrs/flock"
)

// Held is a folder whose lock this process holds.
type Held struct {
	Folder Folder
	lock   *flock.Flock
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

// Hold makes the folder if need be, readable by its owner only, and takes its
// lock. It does not wait: a [*HeldError] says who has it. The lock ends with
// the process, however that ends, so there is nothing to clean up after a
// crash.
func (f Folder) Hold() (*Held, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	lock := flock.New(f.path("lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the data folder %s: %w", f, err)
	}
	if !ok {
		held := &HeldError{Folder: f}
		if held.Address, err = f.Address(); err != nil {
			held.Address = Address{} // it holds the lock and has not announced itself
		}
		return nil, held
	}
	// The store's files take their mode from the first of them: nobody else
	// reads the messages, also where the folder was made by somebody else.
	if err := touch(f.Database()); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	// What a killed server left is no server's address any more.
	if err := f.withdraw(); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return &Held{Folder: f, lock: lock}, nil
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
	return errors.Join(h.Folder.withdraw(), h.lock.Unlock())
}

func (f Folder) withdraw() error {
	if err := os.Remove(f.path("server.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the address of the server: %w", err)
	}
	return nil
}
