package bd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"mailroom"
	"mailroom/issues/tracker"
)

// A file "redirect" in a tracker's folder names the folder to use instead, so that several checkouts share a tracker.
// It has one path, absolute or relative to the folder above .beads; A redirect of the folder it names is not
// followed. The format comes from beads: internal/beads, FollowRedirect.
//
// The file can also come with a cloned repository, whose author must not choose into which of the user's folders
// issues are written. So a redirect is followed only if it leads to another worktree of the same repository, or if
// git does not track the file, because then a program of the user wrote it. Any other redirect must be trusted with
// "bd trust".

const (
	redirectFile = "redirect"
	maxRedirect  = 16 << 10 // bytes
)

// redirection describes a redirect file.
type redirection struct {
	file   string // path of the redirect file
	target string // the folder that it names, absolute
	digest string // digest of the file's content: the user trusts this content
}

// readRedirect returns the redirect file of a folder, or nil.
func readRedirect(path string) (*redirection, error) {
	dir, err := tracker.OpenDir(path)
	if err != nil {
		return nil, nil // no folder, or a link: the command that uses the path says why it fails
	}
	defer dir.Close() // read only: nothing can be lost
	raw, err := dir.Read(redirectFile, maxRedirect)
	if notFound(err) {
		return nil, nil
	}
	file := filepath.Join(path, redirectFile)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(raw), "\ufeff"))
	if text == "" {
		return nil, nil
	}
	if strings.ContainsAny(text, "\n\x00") {
		return nil, mailroom.Errorf(mailroom.CodeInvalid,
			"%s must have one line, the path of another tracker's folder; mend it, or remove it", file)
	}
	target := absolute(filepath.Dir(path), text)
	// "bd worktree create" of early 2026 wrote paths relative to .beads itself. Of the two possible folders only one
	// exists.
	if other := absolute(path, text); !isFolder(target) && isFolder(other) {
		target = other
	}
	if sameFile(target, path) {
		return nil, nil
	}
	return &redirection{file: file, target: target, digest: digestOf(raw)}, nil
}

// redirected returns the tracker that the folder at path redirects to. The result has no path if the folder has no
// redirect.
func (f finder) redirected(path string) (place, error) {
	r, err := readRedirect(path)
	if err != nil || r == nil {
		return place{}, err
	}
	to := tracker.FolderAt(r.target)
	if !to.Exists() {
		return place{}, mailroom.Errorf(mailroom.CodeInvalid,
			"%s names %s, where no tracker is; mend that file or remove it, or name the tracker with --db or BEADS_DIR",
			r.file, r.target)
	}
	if next, err := readRedirect(r.target); err != nil || next != nil {
		return place{}, mailroom.Errorf(mailroom.CodeInvalid,
			"%s names %s, which redirects again; let it name the last folder", r.file, r.target)
	}
	if !ownRedirect(path, r) && !f.trusts(r) {
		return place{}, untrustedRedirect{r, mailroom.Errorf(mailroom.CodeForbidden,
			"%s, which came with this project, leads to the tracker %s; allow that with: bd trust; or remove that file",
			r.file, r.target)}
	}
	return place{Folder: to, via: r.file + " redirects there", redirect: r}, nil
}

// untrustedRedirect reports a redirect that is not followed until the user trusts it.
type untrustedRedirect struct {
	*redirection
	error
}

func (e untrustedRedirect) Unwrap() error { return e.error }

// ownRedirect reports whether a program of the user wrote the redirect, so that the author of the project cannot have
// chosen the target.
func ownRedirect(path string, r *redirection) bool {
	if !sameOwner(r.file, r.target) {
		return false
	}
	top, common := repository(path)
	if top == "" {
		return true // the path is not in a repository
	}
	if _, other := repository(r.target); other != "" && sameFile(common, other) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), tracker.GitTimeout)
	defer cancel()
	// Some file systems open .beads/Redirect under this name too.
	name := ":(icase)" + filepath.Base(path) + "/" + redirectFile
	git := tracker.Git(ctx, filepath.Dir(path), "ls-files", "--error-unmatch", "--", name)
	git.Env = slices.DeleteFunc(git.Env, func(v string) bool {
		return strings.HasPrefix(v, "GIT_INDEX_FILE=") || strings.HasPrefix(v, "GIT_DIR=") ||
			strings.HasPrefix(v, "GIT_WORK_TREE=")
	}) // git sets them for its hooks
	exit, ok := errors.AsType[*exec.ExitError](git.Run())
	return ok && exit.ExitCode() == 1 // exit code 1: the file is not in git's index; other errors prove nothing
}

// repository returns the worktree that contains a path, and the folder with its repository; both are "" outside of
// any. A submodule counts as a repository of its own, because it may have another author. Its .git is a file that
// names its folder.
func repository(path string) (top, common string) {
	for dir := path; ; dir = filepath.Dir(dir) {
		if common := commonGit(dir); common != "" {
			return dir, common
		}
		if at := filepath.Join(dir, ".git"); exists(at) {
			return dir, at
		}
		if dir == filepath.Dir(dir) {
			return "", ""
		}
	}
}

// sameOwner reports whether the current user owns all of the files.
func sameOwner(paths ...string) bool {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return false
		}
		if owner, ok := ownerOf(path, info); !ok || !isUser(owner) {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
