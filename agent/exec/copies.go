package exec

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mailroom"
	"mailroom/internal/proc"
)

// Bounds of what is lent to one attempt. A file beyond them keeps its path, which the
// command cannot read.
const (
	maxCopies    = 50
	maxCopyBytes = 256 << 20
)

// fileCopies copies files of the input to where another user can read them. Without a
// mechanism that shows them in place, the folder Files keeps that user out.
type fileCopies struct {
	files *os.Root
	user  *proc.User
	mark  string // Options.Mark
	dir   string // "" until the first file
	count int
	bytes int64
}

// copyFiles returns the input with the paths of copies that the user of the command may read,
// if it needs any, and what removes them. The copies are in a folder that cannot be listed:
// programs of the same user for other threads are not told where they are.
func (a *agent) copyFiles(input []mailroom.Message) (lent []mailroom.Message, giveBack func() error, err error) {
	i := a.options.Isolation
	if i == nil || i.User == nil || i.Kind != proc.None || a.options.Files == "" {
		return input, func() error { return nil }, nil
	}
	root, err := os.OpenRoot(a.options.Files)
	if errors.Is(err, fs.ErrNotExist) { // it is made for the first file
		return input, func() error { return nil }, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open the files of messages: %w", err)
	}
	l := &fileCopies{files: root, user: i.User, mark: a.options.Mark}
	defer func() {
		err = errors.Join(err, root.Close())
		if err != nil {
			err = errors.Join(err, l.remove())
		}
	}()
	lent = slices.Clone(input)
	for m := len(lent) - 1; m >= 0; m-- { // the latest first
		lent[m].Parts = slices.Clone(lent[m].Parts)
		for p := range lent[m].Parts {
			if err := l.copyPart(a.options.Files, &lent[m].Parts[p]); err != nil {
				return nil, nil, fmt.Errorf("let the user of the agent read a file: %w", err)
			}
		}
	}
	return lent, l.remove, nil
}

// copyPart copies the file of a part, if it is one in the folder files. What a message names
// is not trusted: a path that leads elsewhere is left as it is.
func (l *fileCopies) copyPart(files string, p *mailroom.Part) (err error) {
	path := filePath(p.URI)
	name, relative := filepath.Rel(files, path)
	if p.Type != "file" || !filepath.IsAbs(path) || filepath.Clean(path) != path || relative != nil || !filepath.IsLocal(name) || name == "." || l.count == maxCopies {
		return nil
	}
	if info, err := l.files.Lstat(name); err != nil || !info.Mode().IsRegular() || l.bytes+info.Size() > maxCopyBytes {
		return nil // it is not there, or no file that was sent
	}
	from, err := l.files.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := l.makeDir(); err != nil {
		return err
	}
	l.count++
	to := filepath.Join(l.dir, fmt.Sprintf("%d%s", l.count, filepath.Ext(name)))
	n, err := l.copyFile(to, io.LimitReader(from, maxCopyBytes-l.bytes))
	l.bytes += n
	p.URI = to
	return err
}

// makeDir makes the folder of the copies once. Its parent is ours and cannot be listed.
func (l *fileCopies) makeDir() error {
	if l.dir != "" {
		return nil
	}
	parent, err := os.MkdirTemp("", copiesPrefix(l.mark))
	if err != nil {
		return err
	}
	l.dir = filepath.Join(parent, rand.Text())
	return errors.Join(os.Chmod(parent, 0o711), os.Mkdir(l.dir, 0o700), os.Chown(l.dir, int(l.user.UID), int(l.user.GID)))
}

func (l *fileCopies) copyFile(path string, from io.Reader) (n int64, err error) {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(to, from)
	return n, errors.Join(err, to.Chown(int(l.user.UID), int(l.user.GID)), to.Close())
}

// copiesPrefix begins the name of each folder of copies that a server with the mark makes.
func copiesPrefix(mark string) string {
	return fmt.Sprintf("mailroom-files-%x-", sha256.Sum224([]byte(mark)))
}

// removeCopies removes the copies that a killed server with the mark left behind.
func removeCopies(mark string) error {
	all, err := os.ReadDir(os.TempDir())
	for _, folder := range all {
		if strings.HasPrefix(folder.Name(), copiesPrefix(mark)) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(os.TempDir(), folder.Name())))
		}
	}
	return err
}

// remove takes the copies away. It follows no link that the command has made.
func (l *fileCopies) remove() error {
	if l.dir == "" {
		return nil
	}
	return os.RemoveAll(filepath.Dir(l.dir))
}
