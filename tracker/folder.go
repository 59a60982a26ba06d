package tracker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"github.com/gofrs/flock"

	"mailroom"
)

// Names of files in a tracker's folder. All but the issues are for this machine.
const (
	fileIssues     = "issues.jsonl"
	fileQuarantine = "quarantine.jsonl" // lines that were no issues, with the reason
	fileLock       = "issues.lock"
	fileIgnore     = ".gitignore"
)

// lockRetry is how often a folder that another process writes is tried.
const lockRetry = 2 * time.Millisecond

// Folder is where a tracker is kept, such as .beads.
type Folder struct{ path string }

// Within names the tracker's folder at this path; it need not be there.
func Within(path string) Folder { return Folder{path} }

// Path returns where the folder is.
func (f Folder) Path() string { return f.path }

// File returns where the issues are.
func (f Folder) File() string { return filepath.Join(f.path, fileIssues) }

// Exists reports whether a tracker is kept here.
func (f Folder) Exists() bool {
	_, err := os.Stat(f.File())
	return err == nil
}

// Init makes an empty tracker, and leaves one that is there as it is. It touches
// nothing outside of the folder.
func (f Folder) Init() error {
	if err := os.MkdirAll(f.path, 0o755); err != nil {
		return fmt.Errorf("make the folder of the tracker: %w", err)
	}
	for name, text := range map[string]string{
		fileIssues: "",
		fileIgnore: fileLock + "\n" + fileQuarantine + "\n" + "mail.json\nmail.lock\n*.tmp\n", // those of tracker/mail too
	} {
		file, err := os.OpenFile(filepath.Join(f.path, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("make the tracker: %w", err)
		}
		_, err = io.WriteString(file, text)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("make the tracker: %w", err)
		}
	}
	return nil
}

// Read returns the issues as the file has them now, and what of it is none. It
// waits for nobody: the file is always whole.
func (f Folder) Read() (*Tracker, []Stray, error) {
	text, _, err := f.read()
	if err != nil {
		return nil, nil, err
	}
	t, strays := Parse(text)
	return t, strays, nil
}

// Update changes the issues: nobody else writes them while change runs. If it
// fails nothing is written and its error is returned as it is. What it returns
// after a success is on the disk. Lines that are no issues are moved aside, and
// returned.
func (f Folder) Update(ctx context.Context, change func(*Tracker) error) (strays []Stray, err error) {
	return f.update(ctx, change, true)
}

// UpdateAll is Update for a change that looks at all issues: it is quicker then,
// and slower for any other.
func (f Folder) UpdateAll(ctx context.Context, change func(*Tracker) error) (strays []Stray, err error) {
	return f.update(ctx, change, false)
}

func (f Folder) update(ctx context.Context, change func(*Tracker) error, late bool) (strays []Stray, err error) {
	lock := flock.New(filepath.Join(f.path, fileLock), flock.SetPermissions(0o666)) // whoever may write the folder may lock it
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noTracker(f.path)
		}
		return nil, fmt.Errorf("lock the tracker: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	for {
		text, seen, err := f.read()
		if err != nil {
			return nil, err
		}
		t, strays := parse(text, late)
		if err := change(t); err != nil {
			return nil, err
		}
		lines := t.lines()
		if makeUp(lines, text) {
			return strays, nil
		}
		if err := f.quarantine(strays); err != nil {
			return nil, err
		}
		again, err := f.replace(lines, seen)
		if !again {
			return strays, err
		}
	}
}

func noTracker(path string) error {
	return mailroom.Errorf(mailroom.NotFound, "there is no tracker in %s; make one with: bd init", path)
}

// read returns the file and which one it was.
func (f Folder) read() (text string, seen fs.FileInfo, err error) {
	file, err := os.Open(f.File())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, noTracker(f.path)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read the tracker: %w", err)
	}
	defer file.Close() // it was only read: nothing can be lost
	if seen, err = file.Stat(); err != nil {
		return "", nil, fmt.Errorf("read the tracker: %w", err)
	}
	all := bytes.NewBuffer(room[byte](int(seen.Size()) + bytes.MinRead)[:0]) // with room to see the end
	if _, err = all.ReadFrom(file); err != nil {
		return "", nil, fmt.Errorf("read the tracker: %w", err)
	}
	// A copy would take as long again as reading it, and nobody else has the bytes.
	return unsafe.String(unsafe.SliceData(all.Bytes()), all.Len()), seen, nil
}

// makeUp reports whether these lines are all that a text has.
func makeUp(lines []string, text string) bool {
	for _, line := range lines {
		rest, same := strings.CutPrefix(text, line)
		if !same || !strings.HasPrefix(rest, "\n") {
			return false
		}
		text = rest[1:]
	}
	return text == ""
}

// replace puts lines in the place of the file, unless somebody who does not ask
// for the lock, such as git, has changed it since it was seen. A reader, and
// whoever comes after a crash, finds the old file or the new one.
func (f Folder) replace(lines []string, seen fs.FileInfo) (again bool, err error) {
	name := f.File() + ".tmp"
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, seen.Mode().Perm())
	if err != nil {
		return false, fmt.Errorf("write the tracker: %w", err)
	}
	err = write(file, lines)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		var now fs.FileInfo
		if now, err = os.Stat(f.File()); err == nil {
			if !os.SameFile(now, seen) || now.Size() != seen.Size() || !now.ModTime().Equal(seen.ModTime()) {
				return true, os.Remove(name)
			}
			err = os.Rename(name, f.File())
		}
	}
	if err != nil {
		return false, fmt.Errorf("write the tracker: %w", errors.Join(err, os.Remove(name)))
	}
	return false, f.sync()
}

func write(file io.Writer, lines []string) error {
	const room = 256 << 10 // bytes, for each write
	out := bufio.NewWriterSize(file, room)
	for _, line := range lines {
		_, _ = out.WriteString(line) // Flush tells of its error
		_ = out.WriteByte('\n')
	}
	return out.Flush()
}

// sync makes the names in the folder durable.
func (f Folder) sync() error {
	dir, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("sync the folder of the tracker: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("sync the folder of the tracker: %w", err)
	}
	return nil
}

// quarantine keeps lines that are no issues beside the file, before they leave it.
func (f Folder) quarantine(strays []Stray) error {
	if len(strays) == 0 {
		return nil
	}
	var out bytes.Buffer
	for _, s := range strays {
		line, err := json.Marshal(struct {
			At     time.Time `json:"at"`
			Reason string    `json:"reason"`
			Line   string    `json:"line"`
		}{time.Now().UTC(), s.Err.Error(), s.Line})
		if err != nil {
			return fmt.Errorf("put a line aside: %w", err)
		}
		out.Write(append(line, '\n'))
	}
	file, err := os.OpenFile(filepath.Join(f.path, fileQuarantine), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("put lines aside: %w", err)
	}
	_, err = file.Write(out.Bytes())
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("put lines aside: %w", err)
	}
	return nil
}
