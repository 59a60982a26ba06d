package config

import (
	"fmt"
	"slices"
	"strings"

	"mailroom/internal/proc"
	"mailroom/internal/setting"
)

// Confinement holds the isolation and resource limits of a program. It is not part of an agent's definition: runs
// that are pinned to an older version use the current values.
type Confinement struct {
	Workspace    string   // one of the values below
	Repos        []string // folders of repositories that a submit may name, for worktrees of them
	Disposable   []string // names of ignored folders that the removal of a worktree may delete
	MaxWorktrees int      // most worktrees of the repository; 0: as many as the disk has room for
	Base         string   // one of the values below: where branches of worktrees begin
	Push         string   // remote to which branches of worktrees are pushed; "": none
	PullRequest  bool     // a pull request is opened after the first push
	PullURL      string   // of the API that opens it for remotes at its host, with PullToken
	PullToken    setting.Secret
	Isolation    string // one of the values below
	User         string // system user; "" is the server's own
	MaxProcesses int    // most processes of that user; 0: as many as the server's
	MaxOpenFiles int    // most open files of the program; 0: as many as the server's
	MaxFileSize  int    // bytes; 0: unlimited
}

// Values of workspace.
const (
	workspaceFolder   = "folder"   // all runs work in dir
	WorkspaceWorktree = "worktree" // the runs of each thread work in a worktree of the git repository in dir
)

// Values of base.
const (
	BaseRemote = "remote" // the default branch of the remote, after a fetch; as head if there is no remote
	baseHead   = "head"   // the current commit of dir
)

// Values of isolation. Any other value names a mechanism, which must be available.
const (
	IsolationAuto     = "auto"     // the best available mechanism, or none
	IsolationRequired = "required" // the best available mechanism; without one the server does not start
)

func isolations() []string {
	return []string{IsolationAuto, IsolationRequired, string(proc.KindNamespace), string(proc.KindLandlock),
		string(proc.KindNone)}
}

// check returns the problems of the settings of worktrees. key is the table of the agent, and dir its folder.
func (c *Confinement) check(key, dir string) (found []problem) {
	report := func(name, what string) { found = append(found, problem{key: key + "." + name, what: what}) }
	if c.Workspace == WorkspaceWorktree && dir == "" {
		report("workspace", "needs dir, a folder of the git repository whose worktrees the runs get")
	}
	if c.Push != "" && !c.UsesWorktrees() {
		report("push", `needs workspace = "worktree"`)
	}
	for _, folder := range c.Disposable {
		if strings.Trim(folder, ".") == "" || strings.ContainsAny(folder, "/\\") {
			report("disposable", "needs names of folders without a slash, such as node_modules")
		}
	}
	if c.PullRequest && c.Push == "" {
		report("pull_request", "needs push, the name of a remote")
	}
	name := "pull_token_env"
	if c.PullToken.File != "" {
		name = "pull_token_file"
	}
	switch {
	case c.PullToken.Ambiguous():
		report(name, "two sources of one token; set either pull_token_env or pull_token_file")
	case c.PullToken.IsSet() && !c.PullRequest:
		report(name, "opens no pull requests; set pull_request = true too")
	}
	return found
}

// CheckIsolation returns an error if kind is not a value of isolation.
func CheckIsolation(kind string) error {
	if !slices.Contains(isolations(), kind) {
		return fmt.Errorf("unknown isolation %q; use %s", kind, strings.Join(isolations(), ", "))
	}
	return nil
}

// UsesWorktrees reports whether runs may work in worktrees.
func (c *Confinement) UsesWorktrees() bool {
	return c.Workspace == WorkspaceWorktree || len(c.Repos) > 0
}

func (c *Confinement) settings() []setting.Setting {
	all := []setting.Setting{
		setting.New("workspace",
			"Where its runs work: folder is dir; worktree is a git worktree with a branch for each thread, of the repository "+
				"that dir is in.", setting.OneOf(&c.Workspace, workspaceFolder, WorkspaceWorktree)),
		setting.New("repos",
			"Folders whose git repositories a submit may name (option repo): the runs of its thread work in a worktree "+
				"of that repository.", setting.List(&c.Repos)),
		setting.New("disposable",
			"Names of folders, such as node_modules, that the removal of a worktree may delete where git ignores them.",
			setting.List(&c.Disposable)),
		setting.New("max_worktrees", "Maximum number of worktrees of the repository; 0 is unlimited.",
			setting.Int(&c.MaxWorktrees, 0, 10_000)),
		setting.New("base",
			"Where the branch of a worktree begins: remote is the default branch of the remote, after a fetch; head, or "+
				"without a remote, is the current commit of dir.", setting.OneOf(&c.Base, BaseRemote, baseHead)),
		setting.New("push",
			"Remote to which the branch of a worktree is pushed after each success, such as origin; empty is none.",
			setting.Checked(&c.Push, `the name of a remote, such as "origin"`, func(s string) bool {
				return s == "" || setting.ValidName(s) && s[0] != '-'
			})),
		setting.New("pull_request",
			"Open a pull request after the first push: with pull_token_file if the remote is at GitHub, else with the program "+
				"gh, or glab for a host that is a GitLab.",
			setting.Bool(&c.PullRequest)),
		setting.New("pull_url",
			"Base URL of the API of GitHub that gets the token, for remotes at its host; a GitHub Enterprise Server has "+
				"https://HOST/api/v3.", setting.BaseURL(&c.PullURL)),
	}
	all = append(all, c.PullToken.Settings("pull_token", "the token that opens pull requests at GitHub", "")...)
	return append(all,
		setting.New("isolation",
			"Isolation from the server's data: auto uses the best available mechanism, required also fails without one; or "+
				"namespace, landlock or none.", setting.OneOf(&c.Isolation, isolations()...)),
		setting.New("user", "System user to run as, if the server runs as root; empty is the server's own.",
			setting.Text(&c.User)),
		setting.New("max_processes",
			"Maximum number of processes of the agent's user. If this user is root and the server's cgroup is delegated, it "+
				"is the maximum of one run. 0 is the system's limit.", setting.Int(&c.MaxProcesses, 0, 10_000_000)),
		setting.New("max_open_files", "Maximum number of open files per process; 0 is the system's limit.",
			setting.Int(&c.MaxOpenFiles, 0, 10_000_000)),
		setting.New("max_file_size", "Maximum size of a file it writes; 0B is unlimited.",
			setting.Size(&c.MaxFileSize, 0, 1<<30)))
}
