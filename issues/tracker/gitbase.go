package tracker

import (
	"context"
	"strings"
)

// baseOf returns a function that reads the common ancestor of a conflict. During a merge, git's index has the
// ancestor, until "git add". For lines that a union merge left behind, the index has none, but the parents of the
// merge have one. Without git the ancestor is unknown.
func (f Folder) baseOf(ctx context.Context) func() (string, bool) {
	return func() (string, bool) {
		ctx, cancel := context.WithTimeout(ctx, GitTimeout)
		defer cancel()
		if text, err := f.git(ctx, "cat-file", "blob", ":1:./"+fileIssues); err == nil {
			return text, true
		}
		for _, sides := range [][2]string{{"HEAD", "MERGE_HEAD"}, {"HEAD^1", "HEAD^2"}} {
			base, err := f.git(ctx, "merge-base", sides[0], sides[1])
			if err != nil {
				continue
			}
			if text, err := f.git(ctx, "cat-file", "blob", strings.TrimSpace(base)+":./"+fileIssues); err == nil {
				return text, true
			}
		}
		return "", false
	}
}

// git reads the repository of the folder.
func (f Folder) git(ctx context.Context, args ...string) (string, error) {
	git := Git(ctx, f.path, args...)
	out := &limitedBuffer{left: MaxFile}
	git.Stdout = out
	err := git.Run()
	return string(out.text), err
}

// limitedBuffer collects the output of a program. A write beyond the limit fails.
type limitedBuffer struct {
	text []byte
	left int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errTooLarge
	}
	l.text = append(l.text, p...)
	return len(p), nil
}
