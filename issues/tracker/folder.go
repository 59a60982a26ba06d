package tracker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"mailroom"
)

// Names of files in a tracker's folder. Only the issue file is shared; the others are local.
const (
	fileIssues     = "issues.jsonl"
	fileQuarantine = "quarantine.jsonl" // invalid lines that versions before this one moved out of the issue file
	fileLock       = "issues.lock"
)

// ignored returns patterns for .gitignore, including the files of issues/mail.
func ignored() []string {
	return []string{fileLock, fileReplaced, "imported-*.jsonl", "mail.json", "mail.lock", "*.tmp"}
}

// Limits of files. A folder comes with a project, so the project's author controls the size of its
// files.
const (
	// MaxFile is the maximum size of an issue file, in bytes.
	MaxFile = 128 << 20
	// maxLines bounds the memory for issues: an issue in memory is larger than the shortest line.
	maxLines      = 250_000
	maxQuarantine = 256 << 20
)

// Folder is the directory that holds a tracker, such as .beads. Its contents come with a project
// and are not trusted; see [Dir].
type Folder struct {
	path string
	wait WaitOptions
}

// FolderAt returns the folder at path, which need not exist.
func FolderAt(path string) Folder { return Folder{path: path} }

// WithWait returns the folder with the given lock options. Without them, an update waits for the
// lock until its context ends.
func (f Folder) WithWait(wait WaitOptions) Folder {
	f.wait = wait
	return f
}

// Path returns the path of the folder.
func (f Folder) Path() string { return f.path }

// File returns the path of the issue file.
func (f Folder) File() string { return filepath.Join(f.path, fileIssues) }

// Exists reports whether the folder has an issue file. The file may still be unreadable;
// [Folder.Read] reports that.
func (f Folder) Exists() bool {
	_, err := os.Lstat(f.File())
	return err == nil
}

// Stat describes the issue file. It refuses the kinds of file that [Folder.Read] refuses, such as a
// symbolic link.
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

func (f Folder) open() (*Dir, error) {
	dir, err := OpenDir(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noTracker(f.path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the tracker's folder: %w", err)
	}
	return dir, nil
}

// Init creates an empty tracker. An existing one is not changed. It writes nothing outside the
// folder.
func (f Folder) Init() error {
	dir, err := MakeDir(f.path)
	if err != nil {
		return fmt.Errorf("create the tracker's folder: %w", err)
	}
	if err = dir.Create(fileIssues, ""); err == nil || errors.Is(err, fs.ErrExist) {
		err = dir.Ignore(ignored()...)
	}
	if err == nil {
		_, err = dir.Stat(fileIssues)
	}
	if err = errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("create the tracker: %w", err)
	}
	return nil
}

// Read parses the file and returns its issues and its invalid lines. It takes no lock: the file is
// replaced atomically.
func (f Folder) Read() (*Tracker, []InvalidLine, error) {
	dir, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close() // read only: nothing can be lost
	text, _, err := f.read(dir)
	if err != nil {
		return nil, nil, err
	}
	t, invalid := parse(text, false, f.past(f.baseOf(context.Background())))
	return t, invalid, nil
}

// Update changes the issues under the tracker's lock. If change fails, nothing is written and its
// error is returned unwrapped. On success the issues are on disk. Invalid lines stay in the file and
// are returned. A file whose lines are mostly invalid is not written.
func (f Folder) Update(ctx context.Context, change func(*Tracker) error) (invalid []InvalidLine, err error) {
	return f.update(ctx, change, true, false)
}

// UpdateAll is Update for a change that reads all issues. It is faster than Update for such a
// change and slower for any other.
func (f Folder) UpdateAll(ctx context.Context, change func(*Tracker) error) (invalid []InvalidLine, err error) {
	return f.update(ctx, change, false, false)
}

// update implements [Folder.Update]. If repair is set, it also writes a file that Update refuses.
func (f Folder) update(
	ctx context.Context, change func(*Tracker) error, lazy, repair bool,
) (invalid []InvalidLine, err error) {
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
		t, invalid := parse(text, lazy, f.past(f.baseOf(ctx)))
		if !repair {
			if err := CheckReadable(t, invalid, f.File()); err != nil {
				return nil, err
			}
		}
		if err := change(t); err != nil {
			return nil, err
		}
		lines := t.lines()
		if equalText(lines, text) {
			return invalid, nil
		}
		if err := checkSize(lines, f.File()); err != nil {
			return nil, err
		}
		_ = dir.Ignore(ignored()...) // a failure only makes git list more files
		err = f.replace(dir, lock, lines, seen)
		if err == nil { // not before: if the file stays, its lines are not old ones
			remember(dir, lock, t)
		}
		if !errors.Is(err, errReplaced) {
			return invalid, err
		}
	}
}

// CheckReadable refuses a file, of this name, that is probably damaged. After a change, or a merge with another copy,
// the damage could no longer be noticed.
func CheckReadable(t *Tracker, invalid []InvalidLine, name string) error {
	if t.layout.utf16 {
		return mailroom.Errorf(mailroom.CodeInvalid, "%s is UTF-16 text; convert it to UTF-8 with: bd doctor --restore", name)
	}
	if all := len(t.issues.order) + len(t.others); len(invalid)*2 > all {
		return mailroom.Errorf(mailroom.CodeInvalid,
			"%d of %d lines of %s cannot be read, the first: %v; nothing was written: "+
				"repair it with bd doctor --restore, or get an older copy from git", len(invalid), all, name, invalid[0])
	}
	return nil
}

func noTracker(path string) error {
	return mailroom.Errorf(mailroom.CodeNotFound, "no tracker in %s; create one with: bd init", path)
}

// read returns the contents of the file and its file info.
func (f Folder) read(dir *Dir) (text string, seen fs.FileInfo, err error) {
	file, seen, err := dir.OpenFile(fileIssues, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, noTracker(f.path)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read the tracker: %w", err)
	}
	// read only: nothing can be lost
	defer file.Close()
	// spare room to detect the end of the file
	all := bytes.NewBuffer(makeSlice[byte](int(min(seen.Size(), MaxFile)) + bytes.MinRead)[:0])
	if err = dir.ReadInto(all, file, fileIssues, MaxFile); err != nil {
		return "", nil, fmt.Errorf("read the tracker: %w", err)
	}
	if n := bytes.Count(all.Bytes(), []byte{'\n'}); n > maxLines {
		return "", nil, mailroom.Errorf(mailroom.CodeTooLarge, "%s has %d lines, more than the limit of %d; make it smaller",
			f.File(), n, maxLines)
	}
	// A copy would take as long as the read, and nothing else refers to the bytes.
	return unsafe.String(unsafe.SliceData(all.Bytes()), all.Len()), seen, nil
}

// equalText reports whether text consists of exactly these lines.
func equalText(lines []string, text string) bool {
	for _, line := range lines {
		rest, same := strings.CutPrefix(text, line)
		if !same {
			return false
		}
		text = rest
	}
	return text == ""
}

// checkSize refuses a file that could not be read back.
func checkSize(lines []string, name string) error {
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	if size > MaxFile || len(lines) > maxLines {
		return mailroom.Errorf(mailroom.CodeTooLarge, "%s would have %d issues in %d bytes; the limits are %d and %d", name,
			len(lines), size, maxLines, MaxFile)
	}
	return nil
}

var errTooLarge = errors.New("the file is larger than the limit for issues")

// errReplaced reports that a process that does not use the lock, such as git, changed the file
// after it was read.
var errReplaced = errors.New("the file was changed by another program")

// replace writes lines to the file if it is still the one described by seen.
func (f Folder) replace(dir *Dir, lock *Lock, lines []string, seen fs.FileInfo) error {
	err := lock.Replace(fileIssues, seen.Mode().Perm(), func(to io.Writer) error {
		return write(to, lines)
	}, func() error {
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
	const size = 256 << 10 // bytes per write
	out := bufio.NewWriterSize(file, size)
	for _, line := range lines {
		_, _ = out.WriteString(line) // Flush returns the error
	}
	return out.Flush()
}

// Conflicted reports whether the file contains git's conflict markers.
func (f Folder) Conflicted() (bool, error) {
	dir, err := f.open()
	if err != nil {
		return false, err
	}
	defer dir.Close() // read only: nothing can be lost
	text, _, err := f.read(dir)
	return parseConflicts(text).marked, err
}

// ReadFile returns another file of the folder, of at most max bytes. A missing file yields
// [fs.ErrNotExist].
func (f Folder) ReadFile(name string, max int64) ([]byte, error) {
	dir, err := f.open()
	if err != nil {
		return nil, err
	}
	raw, err := dir.Read(name, max)
	return raw, errors.Join(err, dir.Close())
}

// CreateFile writes a new file to the folder. An existing file yields [fs.ErrExist].
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
