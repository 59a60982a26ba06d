package worktree

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mailroom/internal/proc"
)

const (
	// includeFile has patterns, as .gitignore has them, of ignored files that each new tree gets a copy of.
	includeFile     = ".worktreeinclude"
	maxIncluded     = 200
	maxIncludedSize = 64 << 20 // bytes of one file
)

// include copies the files that includeFile names from the working tree of the person, if git ignores them: others
// would become part of a commit. The copies are made with the rights of the agent, so they give access to nothing.
func (t *Tree) include(ctx context.Context) error {
	top := t.record.Top
	if top == "" {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(top, includeFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	names, err := t.list(ctx, "", "ls-files", "--others", "--ignored", "--exclude-from="+includeFile, "-z")
	if err != nil || len(names) == 0 {
		return err
	}
	if len(names) > maxIncluded {
		return permanent("%s of the repository names %d files; at most %d can be copied", includeFile, len(names),
			maxIncluded)
	}
	names, err = t.list(ctx, strings.Join(names, "\x00"), "check-ignore", "--stdin", "-z")
	if err != nil && !failed(err) {
		return err
	}
	for _, name := range names {
		from, to := filepath.Join(top, filepath.FromSlash(name)), filepath.Join(t.record.Path, filepath.FromSlash(name))
		if info, err := os.Lstat(from); err != nil || !info.Mode().IsRegular() || info.Size() > maxIncludedSize {
			continue // a link may lead anywhere
		}
		if err := t.copyFile(ctx, from, to); err != nil {
			return err
		}
	}
	return nil
}

// list returns names that git prints about the working tree of the person.
func (t *Tree) list(ctx context.Context, input string, args ...string) (names []string, err error) {
	out, err := t.repository.run(ctx, command{dir: t.record.Top, tree: t.record.Path, args: args, input: input})
	for name := range strings.SplitSeq(out, "\x00") {
		if filepath.IsLocal(filepath.FromSlash(name)) {
			names = append(names, name)
		}
	}
	return names, err
}

// copyFile copies a file with the rights of the agent. A file that it may not read is left out.
func (t *Tree) copyFile(ctx context.Context, from, to string) error {
	for _, c := range [][]string{{"mkdir", "-p", "--", filepath.Dir(to)}, {"cp", "-p", "-P", "--", from, to}} {
		_, exit, err := t.repository.start(ctx, proc.Spec{Command: c, Dir: t.record.Path,
			Env: t.repository.environment(command{tree: t.record.Path}), Limits: proc.Limits{Total: quickTimeout}}, "")
		if err != nil {
			return err
		}
		if stderr := string(exit.Stderr); !exit.Success() && !strings.Contains(stderr, "ermission denied") &&
			!strings.Contains(stderr, "No such file") {
			return temporary("a file of %s cannot be copied: %s", includeFile, lastLine(stderr, exit))
		}
	}
	return nil
}

// isCopy reports whether an ignored file of the tree is the same in the working tree of the person, so that its removal
// loses nothing.
func (t *Tree) isCopy(name string) bool {
	if t.record.Top == "" {
		return false
	}
	var texts [2][]byte
	for i, folder := range []string{t.record.Top, t.record.Path} {
		path := filepath.Join(folder, filepath.FromSlash(name))
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxIncludedSize {
			return false
		}
		if texts[i], err = os.ReadFile(path); err != nil {
			return false
		}
	}
	return bytes.Equal(texts[0], texts[1])
}
