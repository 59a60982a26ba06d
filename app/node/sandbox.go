package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/internal/proc"
	"mailroom/store/postgres"
)

// sandbox decides how the programs of agents are isolated from the server's data folder
// and the files with its secrets.
type sandbox struct {
	disabled bool            // programs run without isolation
	data     string          // the data folder, or ""
	hide     []string        // paths that programs cannot access
	secrets  []string        // environment variables that programs do not get
	trust    string          // file that says which commands of repositories may run, or ""
	source   exec.FileSource // gives files that the data folder may not have yet, or nil
	log      *slog.Logger
	cgroup   func() (*proc.Cgroup, error) // control group of the server, prepared at the first call

	// Used only while agents are built.
	tried      map[proc.Kind]error
	chosen     map[string]string // chosen isolation by agent, for display
	unisolated []string          // agents that run without isolation
	reason     error             // why the last of the unisolated agents has no isolation
}

// launchOptions says how the programs of one agent are started.
type launchOptions struct {
	isolation *proc.Isolation
	files     string
	source    exec.FileSource
	dir       string
	worktrees *exec.Worktrees // nil: all runs work in dir
	alone     *exec.Alone     // see programs.aloneOf
	env       []string        // identity of the user; overridden by the configuration
	withheld  []string        // environment variables that the program does not get
}

// allowed returns those of the named environment variables that a program gets. It drops secrets of the server.
func (l launchOptions) allowed(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(l.withheld, name) })
}

// newSandbox collects the paths to hide. It does not test the mechanisms yet.
func newSandbox(c *config.Config, log *slog.Logger) *sandbox {
	s := &sandbox{
		log: log, cgroup: sync.OnceValues(proc.OpenCgroup), tried: map[proc.Kind]error{}, chosen: map[string]string{},
		secrets: append(c.SecretVariables(), c.DatabaseVariables()...),
	}
	if c.Data == "" { // no server runs with this configuration
		s.disabled = true
		return s
	}
	s.data, s.trust = resolvePath(c.Data), c.Trust
	s.hide = []string{s.data}
	s.addHidden(c.File())
	s.addHidden(c.SecretFiles()...)
	s.addHidden(c.Private...)
	return s
}

// files returns the folder of messages' files in the data folder.
func (s *sandbox) files() string { return string(datadir.Dir(s.data).Files()) }

// shareFiles lets programs read the files that all servers on a database share. database is nil if servers share
// none.
func (s *sandbox) shareFiles(database *postgres.Files) {
	if s.data != "" && database != nil {
		s.source = &sharedFiles{folder: datadir.Files(s.files()), database: database, log: s.log}
	}
}

// addHidden hides files outside the data folder. If a path contains links, it hides the path itself and the file that
// it leads to now, because a secret that is replaced may be another file when the next program starts.
func (s *sandbox) addHidden(paths ...string) {
	for _, path := range paths {
		if path == "" {
			continue
		}
		given, err := filepath.Abs(path)
		if err != nil {
			given = path
		}
		for _, path := range []string{resolvePath(path), given} {
			if (s.data == "" || !isWithin(path, s.data)) && !slices.Contains(s.hide, path) {
				s.hide = append(s.hide, path)
			}
		}
	}
}

// resolvePath returns the absolute path without symbolic links, if it exists.
func resolvePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

func isWithin(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// confine returns how to start an agent's programs. It fails if the configured isolation
// is unavailable.
func (s *sandbox) confine(name string, a *config.Agent) (launchOptions, error) {
	c := launchOptions{dir: a.Dir, source: s.source, withheld: s.secrets}
	if s.disabled {
		return c, nil
	}
	if s.data != "" {
		c.files = s.files()
	}
	if a.UsesWorktrees() {
		c.worktrees = &exec.Worktrees{Root: datadir.Dir(s.data).Worktrees(), Most: a.MaxWorktrees,
			Disposable: a.Disposable, Repos: a.Repos, Asked: a.Workspace != config.WorkspaceWorktree,
			Fresh: a.Base == config.BaseRemote, Push: a.Push, PullRequest: a.PullRequest,
			Trust: s.trust}
		var err error
		if c.worktrees.Pulls, err = newPulls(a); err != nil {
			return c, err
		}
	}
	c.isolation = &proc.Isolation{Hide: s.hide, Resources: proc.Resources{
		Processes: uint64(a.MaxProcesses), OpenFiles: uint64(a.MaxOpenFiles), FileSize: uint64(a.MaxFileSize),
	}}
	home := os.Getenv("HOME")
	if a.User != "" {
		u, err := s.setUser(&c, a.User)
		if err != nil {
			return c, err
		}
		home = u.HomeDir
	}
	if h, ok := a.Env["HOME"]; ok {
		home = h
	}
	unfit := s.keepVisible(&c, home)
	kind, why := s.chooseKind(a.Isolation, unfit)
	private := kind == proc.KindNone && a.User != "" && s.checkPrivate() == nil
	switch {
	case kind != proc.KindNone, private, a.Isolation == config.IsolationAuto, a.Isolation == string(proc.KindNone):
	default:
		return c, fmt.Errorf("isolation %q is unavailable: %w", a.Isolation, why)
	}
	if why := landlockRefusal(kind, a); why != "" && name != "" {
		return c, errors.New(why)
	}
	if kind == proc.KindLandlock {
		s.makeProfile(name, a, home, c.isolation.User)
	}
	c.isolation.Kind = kind
	s.record(name, a, kind, private, why)
	if why := landlockProblem(kind, a, home); why != "" && name != "" {
		s.log.Warn("agent is limited under Landlock", "agent", name, "reason", why)
	}
	s.limitProcesses(name, c.isolation)
	return c, nil
}

// limitProcesses creates a cgroup for a limit on processes that would otherwise have no effect, and warns about
// limits that still have none.
func (s *sandbox) limitProcesses(name string, i *proc.Isolation) {
	limits, why := i.Ineffective()
	if slices.Contains(limits, "max_processes") && s.cgroup != nil {
		group, err := s.cgroup()
		if i.Cgroup = group; err != nil {
			why += fmt.Sprintf(" (%v)", err)
		} else {
			limits, why = i.Ineffective()
		}
	}
	if len(limits) > 0 && name != "" {
		s.log.Warn("limits of an agent have no effect", "agent", name, "settings", strings.Join(limits, ", "), "reason", why)
	}
}

// landlockRefusal returns why a program cannot work under Landlock at all, with what to do, or "" if it can.
func landlockRefusal(kind proc.Kind, a *config.Agent) string {
	if kind == proc.KindLandlock && adapted(a) == "codex" && a.Permissions != string(program.ModeAll) &&
		a.Mode != "agent-full-access" {
		return `codex can run no command under Landlock with permissions = "` + a.Permissions +
			`", because its own sandbox needs mounts; ` +
			`allow user namespaces and set isolation = "namespace", or set permissions = "all", or isolation = "none"`
	}
	return ""
}

// adapted returns the kind of the agent, and for an adapter of the Agent Client Protocol the program behind it.
func adapted(a *config.Agent) string {
	if a.Kind != program.KindACP {
		return a.Kind
	}
	return map[string]string{"codex-acp": "codex", "claude-agent-acp": "claude"}[a.Profile().Name]
}

// makeProfile makes the folder in which a program keeps its login and its sessions. Under Landlock the program cannot
// make it itself if the data folder is below the same home. makeProfile ignores errors, because landlockProblem warns
// about a folder that is missing.
func (s *sandbox) makeProfile(name string, a *config.Agent, home string, owner *proc.User) {
	set := func(variable string) bool { return a.Env[variable] != "" || os.Getenv(variable) != "" }
	var folder, file string
	switch {
	case adapted(a) == "claude" && !set("CLAUDE_CONFIG_DIR"):
		folder, file = filepath.Join(home, ".claude"), filepath.Join(home, ".claude.json")
	case adapted(a) == "codex" && !set("CODEX_HOME"):
		folder = filepath.Join(home, ".codex")
	default:
		return
	}
	var made []string
	err := os.Mkdir(folder, 0o700)
	if err == nil {
		made = append(made, folder)
	}
	if file != "" {
		f, failed := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if failed == nil {
			made = append(made, file)
			_, failed = f.WriteString("{}\n")
			failed = errors.Join(failed, f.Close())
		}
		err = errors.Join(err, failed)
	}
	if owner != nil {
		for _, path := range made {
			err = errors.Join(err, os.Chown(path, int(owner.UID), int(owner.GID)))
		}
	}
	if len(made) > 0 {
		s.log.Info("profile of a program created, which it cannot create under Landlock", "agent", name, "paths",
			strings.Join(made, " "))
	} else if err != nil && !errors.Is(err, fs.ErrExist) {
		s.log.Debug("profile of a program not created", "agent", name, "error", err)
	}
}

// landlockProblem returns what a program cannot do under Landlock, with what to do, or "" if nothing is restricted.
func landlockProblem(kind proc.Kind, a *config.Agent, home string) string {
	switch {
	case kind != proc.KindLandlock:
		return ""
	case adapted(a) == "claude" && a.Env["CLAUDE_CONFIG_DIR"] == "" && os.Getenv("CLAUDE_CONFIG_DIR") == "":
		if _, err := os.Stat(filepath.Join(home, ".claude")); errors.Is(err, fs.ErrNotExist) {
			return "claude may be unable to keep its sessions; run mkdir ~/.claude and write {} to ~/.claude.json"
		}
	}
	return ""
}

// setUser makes the program run as another user of the system.
func (s *sandbox) setUser(c *launchOptions, name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("cannot run programs as user %q: only a server that runs as root can", name)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %q: %w", name, err)
	}
	var ids []uint32
	for _, id := range append([]string{u.Uid, u.Gid}, groups...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %q: invalid id %q", name, id)
		}
		ids = append(ids, uint32(n))
	}
	if ids[0] == 0 {
		return nil, fmt.Errorf("user %q is root; name another user", name)
	}
	c.isolation.User = &proc.User{UID: ids[0], GID: ids[1], Groups: ids[2:]}
	c.env = []string{"HOME=" + u.HomeDir, "USER=" + u.Username, "LOGNAME=" + u.Username}
	if c.dir == "" {
		c.dir = u.HomeDir
	}
	return u, nil
}

// keepVisible keeps a program's working folder and HOME accessible if they are inside the
// data folder. It fails if one of them is the data folder itself, which cannot be hidden
// then.
func (s *sandbox) keepVisible(c *launchOptions, home string) error {
	if s.data == "" {
		return nil
	}
	for what, path := range map[string]string{"works in": c.dir, "has as its HOME": home} {
		if path == "" && what != "works in" {
			continue
		}
		path = resolvePath(path)
		switch {
		case path == s.data:
			return fmt.Errorf("the program %s the data folder itself", what)
		case isWithin(path, s.data):
			c.isolation.Keep = append(c.isolation.Keep, path)
		}
	}
	slices.Sort(c.isolation.Keep)
	return nil
}

// chooseKind returns the mechanism for a value of isolation on this machine. If the result is None although another
// mechanism was asked for, the error says why.
func (s *sandbox) chooseKind(asked string, unfit error) (proc.Kind, error) {
	kinds := []proc.Kind{proc.KindNamespace, proc.KindLandlock}
	switch asked {
	case string(proc.KindNone):
		return proc.KindNone, nil
	case config.IsolationAuto, config.IsolationRequired:
	default:
		kinds = []proc.Kind{proc.Kind(asked)}
	}
	if unfit != nil {
		return proc.KindNone, unfit
	}
	var why error
	for _, kind := range kinds {
		err, known := s.tried[kind]
		if !known {
			err = proc.Try(context.Background(), kind)
			s.tried[kind] = err
		}
		if err == nil {
			return kind, nil
		}
		why = errors.Join(why, fmt.Errorf("%s: %w", kind, err))
	}
	return proc.KindNone, why
}

// checkPrivate returns an error if other users can read the data folder, or, if there is no data folder, one of the
// hidden files.
func (s *sandbox) checkPrivate() error {
	if s.data == "" {
		for _, path := range s.hide {
			info, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				err = fmt.Errorf("other users can read the token file: chmod 600 %s", path)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	info, err := os.Stat(s.data)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("other users can access the data folder: chmod 700 %s", s.data)
	}
	return err
}

// record records the choice for a configured agent, for display and for the log.
func (s *sandbox) record(name string, a *config.Agent, kind proc.Kind, private bool, why error) {
	if name == "" {
		return
	}
	for _, variable := range a.EnvAllow {
		if slices.Contains(s.secrets, variable) {
			s.log.Warn("env_allow names a secret of the server; variable withheld from the agent", "agent", name, "variable",
				variable)
		}
	}
	switch {
	case a.User != "" && kind == proc.KindNone:
		s.chosen[name] = "user " + a.User
	case a.User != "":
		s.chosen[name] = string(kind) + ", user " + a.User
	default:
		s.chosen[name] = string(kind)
	}
	if kind == proc.KindNone && !private {
		s.chosen[name] = string(proc.KindNone)
		s.unisolated = append(s.unisolated, name)
		if why != nil {
			s.reason = why
		}
	}
}

// isolationOf returns the isolation of an agent's programs, for display; "" for an agent
// without programs.
func (s *sandbox) isolationOf(agent string) string {
	if s == nil {
		return ""
	}
	return s.chosen[agent]
}

// warnUnisolated logs a warning that lists the agents without isolation.
func (s *sandbox) warnUnisolated() {
	if len(s.unisolated) == 0 {
		return
	}
	args := []any{"agents", strings.Join(s.unisolated, ", ")}
	if s.reason != nil {
		args = append(args, "reason", strings.ReplaceAll(s.reason.Error(), "\n", "; "))
	}
	s.log.Warn("agents run without isolation and can read the server's data and tokens", args...)
}

// newWorkSandbox returns the sandbox of mailroom work, which hides the token file and, if this machine has a
// data folder, that folder and the files with secrets of its server.
func newWorkSandbox(con *command.Console, tokenFile string, log *slog.Logger) *sandbox {
	s := &sandbox{log: log, tried: map[proc.Kind]error{}, chosen: map[string]string{}, secrets: []string{"MAILROOM_TOKEN"}}
	if dir, err := datadir.Find(con.Data, con.Env); err == nil {
		if _, err := os.Stat(string(dir)); err == nil {
			s.data = resolvePath(string(dir))
			s.hide = []string{s.data}
			s.hideServer(con, dir)
		}
	}
	s.addHidden(tokenFile, contextsFolder(con), credentials(con))
	return s
}

// hideServer hides the secrets of a server on this machine that are outside its data folder.
func (s *sandbox) hideServer(con *command.Console, dir datadir.Dir) {
	c, err := loadConfig(con, dir, "")
	if err != nil {
		s.log.Warn("files with secrets of this machine's server may be readable for the command: its configuration cannot "+
			"be read", "error", err)
		return
	}
	s.secrets = append(s.secrets, append(c.SecretVariables(), c.DatabaseVariables()...)...)
	s.addHidden(c.SecretFiles()...)
	s.addHidden(c.DatabaseFiles(con.Env)...)
}
