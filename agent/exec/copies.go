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

// Limits of the copies for one attempt. A file beyond these limits keeps its original path, which the command cannot
// read.
const (
	maxCopies    = 50
	maxCopyBytes = 256 << 20
)

// fileCopies copies files of the input to a folder that another user can read. It is used if no
// isolation mechanism can expose single files of the hidden folder.
type fileCopies struct {
	files *os.Root
	user  *proc.User
	mark  string // Options.Mark
	dir   string // folder of the copies; "" until the first copy
	count int
	bytes int64
}

// copyFiles returns the input with file paths replaced by readable copies where the command needs
// them, and a function that removes the copies. Their folder cannot be listed, so programs of the
// same user for other threads cannot find them.
func (a *agent) copyFiles(input []mailroom.Message) (copied []mailroom.Message, remove func() error, err error) {
	i := a.options.Isolation
	if i == nil || i.User == nil || i.Kind != proc.KindNone || a.options.Files == "" {
		return input, func() error { return nil }, nil
	}
	root, err := os.OpenRoot(a.options.Files)
	if errors.Is(err, fs.ErrNotExist) { // the store has no file yet
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
	copied = slices.Clone(input)
	for m := len(copied) - 1; m >= 0; m-- { // the latest first
		copied[m].Parts = slices.Clone(copied[m].Parts)
		for p := range copied[m].Parts {
			if err := l.copyPart(a.options.Files, &copied[m].Parts[p]); err != nil {
				return nil, nil, fmt.Errorf("copy a file for the agent's user: %w", err)
			}
		}
	}
	return copied, l.remove, nil
}

// copyPart copies the file of a part if it is in the folder files. The path comes from a message
// and is not trusted: a path outside the folder is left unchanged.
func (l *fileCopies) copyPart(files string, p *mailroom.Part) (err error) {
	path := filePath(p.URI)
	name, relative := filepath.Rel(files, path)
	if p.Type != "file" || !filepath.IsAbs(path) || filepath.Clean(path) != path || relative != nil ||
		!filepath.IsLocal(name) || name == "." || l.count == maxCopies {
		return nil
	}
	if info, err := l.files.Lstat(name); err != nil || !info.Mode().IsRegular() || l.bytes+info.Size() > maxCopyBytes {
		return nil // missing, or not a stored file
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

// makeDir creates the folder of the copies once. Its parent belongs to the server and cannot be
// listed.
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

// copiesPrefix returns the prefix of the names of folders that a server with this mark creates.
func copiesPrefix(mark string) string {
	return fmt.Sprintf("mailroom-files-%x-", sha256.Sum224([]byte(mark)))
}

// removeCopies removes the copies that a killed server with this mark left.
func removeCopies(mark string) error {
	all, err := os.ReadDir(os.TempDir())
	for _, folder := range all {
		if strings.HasPrefix(folder.Name(), copiesPrefix(mark)) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(os.TempDir(), folder.Name())))
		}
	}
	return err
}

// remove deletes the copies. It does not follow links that the command may have created.
func (l *fileCopies) remove() error {
	if l.dir == "" {
		return nil
	}
	return os.RemoveAll(filepath.Dir(l.dir))
}
