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

	"mailroom"
	"mailroom/internal/projectdir"
)

// Names of files in a tracker's folder. All but the issues are for this machine.
const (
	fileIssues     = "issues.jsonl"
	fileQuarantine = "quarantine.jsonl" // lines that were no issues, with the reason
	fileLock       = "issues.lock"
)

// ignored are the files that git has no business with, those of tracker/mail too.
func ignored() []string {
	return []string{fileLock, fileQuarantine, "mail.json", "mail.lock", "*.tmp"}
}

// Limits of what is read and kept. A folder comes with a project, so its author
// chooses how large the files are.
const (
	// MaxFile is the most bytes that a file of issues may have.
	MaxFile = 128 << 20
	// maxLines bounds the memory for issues, which are larger than the shortest line.
	maxLines      = 250_000
	maxQuarantine = 256 << 20
)

// Folder is where a tracker is kept, such as .beads. What is in it came with a
// project and is not trusted: see [projectdir].
type Folder struct {
	path string
	wait projectdir.Wait
}

// FolderAt names the tracker's folder at this path; it need not be there.
func FolderAt(path string) Folder { return Folder{path: path} }

// WithWait returns the folder for a process that waits for others as it says. Without
// it, an update waits until its context ends.
func (f Folder) WithWait(wait projectdir.Wait) Folder {
	f.wait = wait
	return f
}

// Path returns where the folder is.
func (f Folder) Path() string { return f.path }

// File returns where the issues are.
func (f Folder) File() string { return filepath.Join(f.path, fileIssues) }

// Exists reports whether a tracker is kept here. Whether it can be read is for
// [Folder.Read] to say.
func (f Folder) Exists() bool {
	_, err := os.Lstat(f.File())
	return err == nil
}

// Stat describes the file of the issues. It refuses what [Folder.Read] refuses
// because of its kind, such as a link.
func (f Folder) Stat() (fs.FileInfo, error) {
	dir, err := f.open()
	if err != nil {
		return nil, err
	}
	info, err := dir.Stat(fileIssues)
	if errors.Is(err, fs.ErrNotExist) {
		err = noTracker(f.path)
	}
	return info, errors.Join(err, dir.Close())
}

// open opens the folder.
func (f Folder) open() (*projectdir.Dir, error) {
	dir, err := projectdir.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noTracker(f.path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of the tracker: %w", err)
	}
	return dir, nil
}

// Init makes an empty tracker, and leaves one that is there as it is. It touches
// nothing outside of the folder.
func (f Folder) Init() error {
	dir, err := projectdir.Make(f.path)
	if err != nil {
		return fmt.Errorf("make the folder of the tracker: %w", err)
	}
	if err = dir.Create(fileIssues, ""); err == nil || errors.Is(err, fs.ErrExist) {
		err = dir.Ignore(ignored()...)
	}
	if err == nil {
		_, err = dir.Stat(fileIssues)
	}
	if err = errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("make the tracker: %w", err)
	}
	return nil
}

// Read returns the issues as the file has them now, and what of it is none. It
// waits for nobody: the file is always whole.
func (f Folder) Read() (*Tracker, []InvalidLine, error) {
	dir, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close() // it was only read: nothing can be lost
	text, _, err := f.read(dir)
	if err != nil {
		return nil, nil, err
	}
	t, strays := parse(text, false, f.baseOf(context.Background()))
	return t, strays, nil
}

// Update changes the issues: nobody else writes them while change runs. If it
// fails nothing is written and its error is returned as it is. What it returns
// after a success is on the disk. Lines that are no issues are moved aside, and
// returned.
func (f Folder) Update(ctx context.Context, change func(*Tracker) error) (strays []InvalidLine, err error) {
	return f.update(ctx, change, true)
}

// UpdateAll is Update for a change that looks at all issues: it is quicker then,
// and slower for any other.
func (f Folder) UpdateAll(ctx context.Context, change func(*Tracker) error) (strays []InvalidLine, err error) {
	return f.update(ctx, change, false)
}

func (f Folder) update(ctx context.Context, change func(*Tracker) error, late bool) (strays []InvalidLine, err error) {
	dir, err := f.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	lock, err := dir.Lock(ctx, fileLock, fileIssues, f.wait)
	if err != nil {
		return nil, fmt.Errorf("lock the tracker: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	for {
		text, seen, err := f.read(dir)
		if err != nil {
			return nil, err
		}
		t, strays := parse(text, late, f.baseOf(ctx))
		if err := change(t); err != nil {
			return nil, err
		}
		lines := t.lines()
		if equalText(lines, text) {
			return strays, nil
		}
		if err := checkSize(lines, f.File()); err != nil {
			return nil, err
		}
		_ = dir.Ignore(ignored()...) // a change does not fail because git lists more files
		if err := quarantine(dir, strays); err != nil {
			return nil, err
		}
		err = f.replace(dir, lock, lines, seen)
		if !errors.Is(err, errReplaced) {
			return strays, err
		}
	}
}

func noTracker(path string) error {
	return mailroom.Errorf(mailroom.CodeNotFound, "there is no tracker in %s; make one with: bd init", path)
}

// read returns the file and which one it was.
func (f Folder) read(dir *projectdir.Dir) (text string, seen fs.FileInfo, err error) {
	file, seen, err := dir.OpenFile(fileIssues, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, noTracker(f.path)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read the tracker: %w", err)
	}
	defer file.Close()                                                                          // it was only read: nothing can be lost
	all := bytes.NewBuffer(makeSlice[byte](int(min(seen.Size(), MaxFile)) + bytes.MinRead)[:0]) // with room to see the end
	if err = dir.Fill(all, file, fileIssues, MaxFile); err != nil {
		return "", nil, fmt.Errorf("read the tracker: %w", err)
	}
	if n := bytes.Count(all.Bytes(), []byte{'\n'}); n > maxLines {
		return "", nil, mailroom.Errorf(mailroom.CodeTooLarge, "%s has %d lines, more than the %d that are read; make it smaller", f.File(), n, maxLines)
	}
	// A copy would take as long again as reading it, and nobody else has the bytes.
	return unsafe.String(unsafe.SliceData(all.Bytes()), all.Len()), seen, nil
}

// equalText reports whether these lines are all that a text has.
func equalText(lines []string, text string) bool {
	for _, line := range lines {
		rest, same := strings.CutPrefix(text, line)
		if !same || !strings.HasPrefix(rest, "\n") {
			return false
		}
		text = rest[1:]
	}
	return text == ""
}

// checkSize refuses lines that could not be read again.
func checkSize(lines []string, name string) error {
	size := len(lines)
	for _, line := range lines {
		size += len(line)
	}
	if size > MaxFile || len(lines) > maxLines {
		return mailroom.Errorf(mailroom.CodeTooLarge, "%s would have %d issues in %d bytes; at most %d in %d bytes are read", name, len(lines), size, maxLines, MaxFile)
	}
	return nil
}

var errTooLarge = errors.New("it is larger than a file of issues may be")

// errReplaced says that a process that does not take the lock, such as git, changed
// the file since it was read.
var errReplaced = errors.New("the file was changed by another program")

// replace puts lines in the place of the file that was seen.
func (f Folder) replace(dir *projectdir.Dir, lock *projectdir.Lock, lines []string, seen fs.FileInfo) error {
	err := lock.Replace(fileIssues, seen.Mode().Perm(), func(to io.Writer) error { return write(to, lines) }, func() error {
		now, err := dir.Stat(fileIssues)
		if err == nil && (!os.SameFile(now, seen) || now.Size() != seen.Size() || !now.ModTime().Equal(seen.ModTime())) {
			err = errReplaced
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write the tracker: %w", err)
	}
	return nil
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

// Conflicted reports whether git has marked conflicts in the file.
func (f Folder) Conflicted() (bool, error) {
	dir, err := f.open()
	if err != nil {
		return false, err
	}
	defer dir.Close() // it is only read: nothing can be lost
	text, _, err := f.read(dir)
	return parseConflicts(text).marked, err
}

// ReadFile returns another file of the folder, of at most max bytes. A missing one is
// [fs.ErrNotExist].
func (f Folder) ReadFile(name string, max int64) ([]byte, error) {
	dir, err := f.open()
	if err != nil {
		return nil, err
	}
	raw, err := dir.Read(name, max)
	return raw, errors.Join(err, dir.Close())
}

// CreateFile writes another file of the folder that does not exist yet, or returns
// [fs.ErrExist].
func (f Folder) CreateFile(name, text string) error {
	dir, err := f.open()
	if err != nil {
		return err
	}
	return errors.Join(dir.Create(name, text), dir.Close())
}

// WriteFile replaces another file of the folder.
func (f Folder) WriteFile(ctx context.Context, name string, text []byte) (err error) {
	dir, err := f.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	lock, err := dir.Lock(ctx, fileLock, fileIssues, f.wait)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return lock.Replace(name, 0o644, func(to io.Writer) error {
		_, err := to.Write(text)
		return err
	}, nil)
}

// quarantine keeps lines that are no issues beside the file, before they leave it.
func quarantine(dir *projectdir.Dir, strays []InvalidLine) error {
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
	if err := dir.Append(fileQuarantine, out.Bytes(), maxQuarantine); err != nil {
		return fmt.Errorf("put lines aside: %w", err)
	}
	return nil
}
