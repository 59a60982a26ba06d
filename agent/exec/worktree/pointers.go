package worktree

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pointerBegin is how a file begins whose content git LFS has not loaded, and maxPointer its maximum size in bytes.
// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
const (
	pointerBegin = "version https://git-lfs.github.com/spec/v1\n"
	maxPointer   = 1024
)

// pointers says which files of a new tree have only their pointers, because git LFS is not installed or not set up for
// the agent; "" if all files have their contents. A git without the filter writes the pointers and no error.
func pointers(ctx context.Context, t *Tree) (string, error) {
	attributes, _ := os.ReadFile(filepath.Join(t.record.Path, ".gitattributes")) // else it names no filter
	_, missing := os.Lstat(filepath.Join(t.repository.common, "lfs"))
	if missing != nil && !bytes.Contains(attributes, []byte("filter=lfs")) {
		return "", nil
	}
	out, err := t.git(ctx, command{}, "ls-files", "-z", "--", ":(attr:filter=lfs)")
	if err != nil {
		return "", err
	}
	first, n := "", 0
	for name := range strings.SplitSeq(out, "\x00") {
		if name == "" || !isPointer(filepath.Join(t.record.Path, filepath.FromSlash(name))) {
			continue
		}
		if n++; n == 1 {
			first = name
		}
	}
	if n == 0 {
		return "", nil
	}
	more := ""
	if n > 1 {
		more = fmt.Sprintf(" and %d more", n-1)
	}
	return fmt.Sprintf("%q%s: only the pointer of git LFS; install git-lfs for the agent and run git lfs install", first,
		more), nil
}

// isPointer reports whether a file is a pointer of git LFS.
func isPointer(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxPointer {
		return false
	}
	raw, err := os.ReadFile(path)
	return err == nil && bytes.HasPrefix(raw, []byte(pointerBegin))
}
