package bd

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mailroom"
	"mailroom/issues/tracker"
)

const folderName = ".beads"

// place is the folder of the tracker that a command uses.
type place struct {
	tracker.Folder
	// via says for a person how the folder was found, such as by a redirect. It is "" if the folder is where a user
	// expects it.
	via      string
	redirect *redirection // redirection that was followed, or nil
}

// finder finds the tracker that belongs to a folder.
type finder struct {
	trusts func(*redirection) bool
}

// folder returns the tracker's folder: the one that --db or BEADS_DIR name, or the nearest .beads in the parent
// directories. A folder can redirect to another one (see [finder.follow]), and a linked worktree of git without
// a tracker uses the main worktree's tracker.
//
// The search ends at the first folder that has, or had, a tracker, even if that tracker cannot be used. The next
// tracker above belongs to another project, and issues would be written there unnoticed.
func (m *Main) folder() (tracker.Folder, error) {
	if m.found != nil {
		return m.found.Folder, nil
	}
	at, err := m.locate()
	if err != nil {
		return tracker.Folder{}, err
	}
	m.found = &at
	return at.Folder, nil
}

func (m *Main) finder() finder {
	return finder{trusts: func(r *redirection) bool { return m.trusted(realPath(r.file), r.digest) }}
}

func (m *Main) locate() (place, error) {
	find := m.finder()
	if named := m.named(); named != "" {
		at, err := find.follow(named)
		if at.Path() == "" {
			at.Folder = tracker.FolderAt(named)
		}
		return at, err
	}
	for dir := m.Dir; ; dir = filepath.Dir(dir) {
		at, err := find.inFolder(dir)
		if err == nil && at.Path() != "" && at.via == "" && dir != m.Dir && !knowsOwner(m, at.Path()) {
			return place{}, mailroom.Errorf(mailroom.CodeForbidden,
				"%s, above this folder, belongs to another user; if you want to work with it, name it: BEADS_DIR=%[1]s; or create a tracker here: %[2]s init",
				at.Path(), cmp.Or(m.Name, "bd"))
		}
		if err != nil || at.Path() != "" {
			return at, err
		}
		if dir == filepath.Dir(dir) {
			return place{}, mailroom.Errorf(mailroom.CodeNotFound, "no tracker here; create one with: %s init",
				cmp.Or(m.Name, "bd"))
		}
	}
}

// knowsOwner reports whether a folder belongs to this user, to the administrator, or to the owner of the working
// folder. Other trackers are not used, because issues are instructions to agents: any user can create a .beads folder
// in a folder that everyone may write, such as /tmp, and commands that run below /tmp would find it.
func knowsOwner(m *Main, path string) bool {
	owner, ok := linkOwner(path)
	here, known := linkOwner(m.Dir)
	return ok && (isAdministrator(owner) || isUser(owner) || known && owner == here)
}

// linkOwner returns the owner of a file, or of the link itself if it is one.
func linkOwner(path string) (id string, ok bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", false
	}
	return ownerOf(path, info)
}

// inFolder returns the tracker of the project in dir. The result has no path if the project has no tracker.
func (f finder) inFolder(dir string) (place, error) {
	at, err := f.follow(filepath.Join(dir, folderName))
	main := mainWorktree(dir)
	if err != nil || at.Path() != "" || main == "" {
		return at, err
	}
	at, err = f.follow(filepath.Join(main, folderName))
	if at.Path() != "" && at.via == "" {
		at.via = "this is a worktree of that repository, and has no tracker of its own"
	}
	return at, err
}

// named returns the folder that --db or BEADS_DIR name, or "".
func (m *Main) named() string {
	switch {
	case m.database != "":
		return filepath.Dir(m.absPath(m.database))
	case m.Env("BEADS_DIR") != "":
		return m.absPath(m.Env("BEADS_DIR"))
	}
	return ""
}

// follow returns the tracker that path uses: the one in this folder, or the one that the folder redirects to. The
// result has no path if the folder has no tracker. It is an error if the tracker exists and cannot be used.
func (f finder) follow(path string) (place, error) {
	to, err := f.redirected(path)
	if err != nil || to.Path() != "" {
		return to, err
	}
	own := tracker.FolderAt(path)
	if own.Exists() {
		return place{Folder: own}, nil
	}
	return place{}, foreign(path)
}

// foreign returns an error if a folder holds issues in a form that this program does not read:
// databases, and versions with another name for the file.
func foreign(path string) error {
	// It may be a pipe, on which an ordinary open would wait.
	dir, err := openFolder(path)
	if err != nil {
		return nil // no folder, or no access: the command does not use it
	}
	defer dir.Close() // read only: nothing can be lost
	const enough = 1000
	names, _ := dir.Readdirnames(enough) // entries that cannot be listed are not found either
	slices.Sort(names)
	for _, name := range names {
		switch {
		case name == "beads.jsonl":
			return mailroom.Errorf(mailroom.CodeInvalid,
				"the issues of %s are in %s, the name of an older version; rename it: git mv %s %s",
				path, name, filepath.Join(path, name), filepath.Join(path, "issues.jsonl"))
		case strings.HasSuffix(name, ".db"), name == "dolt", name == "embeddeddolt":
			return mailroom.Errorf(mailroom.CodeInvalid,
				"the issues of %s are in a database, %s, of another version of bd; write them to a file with that version: bd export -o %s",
				path, name, filepath.Join(path, "issues.jsonl"))
		}
	}
	return nil
}

// mainWorktree returns the main worktree of the repository if dir is the top of a linked one
// (gitrepository-layout(5)), or "". A linked worktree has a file .git that names its folder in the repository, which
// in turn names the worktree. A .git file that came with an archive is not used, because no repository names it in
// turn.
func mainWorktree(dir string) string {
	common := commonGit(dir)
	if common == "" || common == filepath.Join(dir, ".git") || filepath.Base(common) != ".git" {
		return "" // no repository, the main worktree itself, or a bare repository
	}
	return filepath.Dir(common)
}

// commonGit returns the folder with the repository of a worktree, given its top folder, or "".
func commonGit(top string) string {
	at := filepath.Join(top, ".git")
	info, err := os.Lstat(at)
	switch {
	case err != nil:
		return ""
	case info.IsDir():
		return at
	}
	git := oneLine(top, ".git")
	git, is := strings.CutPrefix(git, "gitdir:")
	if !is {
		return ""
	}
	git = absolute(top, strings.TrimSpace(git))
	back := absolute(git, oneLine(git, "gitdir"))
	common := oneLine(git, "commondir")
	if common = absolute(git, common); git == common || !sameFile(back, at) ||
		!sameFile(filepath.Dir(git), filepath.Join(common, "worktrees")) {
		return "" // a submodule, or a file that only claims to be a worktree: the folder of one is in its repository
	}
	return common
}

// oneLine returns the first line of a file, or "".
func oneLine(folder, name string) string {
	const most = 16 << 10 // bytes; a path has at most 4096
	dir, err := tracker.OpenDir(folder)
	if err != nil {
		return ""
	}
	defer dir.Close() // read only: nothing can be lost
	text, err := dir.Read(name, most)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// absolute returns path, which may be relative to dir.
func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// notFound reports whether err says that a file does not exist.
func notFound(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || mailroom.CodeOf(err) == mailroom.CodeNotFound
}
