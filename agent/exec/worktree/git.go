package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"mailroom/internal/proc"
)

// command is one call of git. No shell is involved.
type command struct {
	dir   string   // working folder; "" is the git folder of the repository
	tree  string   // path of the tree that the process belongs to, for the mark; "" is the repository
	args  []string // without the settings that all calls have
	env   []string
	input string
	total time.Duration // 0: quickTimeout
	max   int64         // bytes of output; 0: maxOutput
}

const (
	quickTimeout = time.Minute
	// filesTimeout bounds a call that writes or reads all files of a tree.
	filesTimeout = 15 * time.Minute
	maxOutput    = 64 << 20
	maxStderr    = 4 << 10
	maxQuoted    = 300 // bytes of git's error that a problem quotes
)

// envMark is the variable by which processes of a tree's git commands are found after a kill of the server. git's own
// children, such as the one that writes the files, live on when git is killed.
const envMark = "MAILROOM_GIT"

// settings are the settings of each call: no hook and no program that watches files runs, nothing works on in the
// background, and nothing that git compares can be hidden by a setting of the repository.
func settings() []string {
	var args []string
	for _, s := range []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.ignoreStat=false",
		"core.quotePath=false", "gc.auto=0", "maintenance.auto=false", "checkout.workers=1", "submodule.recurse=false",
		"advice.detachedHead=false", "worktree.useRelativePaths=false", "commit.gpgSign=false",
	} {
		args = append(args, "-c", s)
	}
	return args
}

// environment returns the variables of a call. It passes on no variable of git: one such as GIT_DIR would lead git to
// another repository.
func (r *Repository) environment(c command) []string {
	env := slices.DeleteFunc(slices.Clone(r.options.Env), func(e string) bool { return strings.HasPrefix(e, "GIT_") })
	mark := c.tree
	if mark == "" {
		mark = r.common
	}
	return append(append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_EDITOR=false",
		"GIT_SEQUENCE_EDITOR=false", "GIT_ASKPASS=false", "SSH_ASKPASS=false",
		"GIT_SSH_COMMAND=ssh -oBatchMode=yes -oConnectTimeout=20",
		"GIT_HTTP_LOW_SPEED_LIMIT=1", "GIT_HTTP_LOW_SPEED_TIME=60",
		envMark+"="+mark), c.env...)
}

// isolation returns the isolation of a call, which can reach the trees of the repository.
func (r *Repository) isolation() *proc.Isolation {
	if r.options.Isolation == nil {
		return nil
	}
	i := *r.options.Isolation
	i.Keep = slices.Clone(i.Keep)
	if r.trees != "" {
		i.Keep = append(i.Keep, r.trees)
	}
	return &i
}

// exitError is a call of git that ended with another status than 0.
type exitError struct {
	exit   proc.Exit
	what   string
	stderr string
}

func (e *exitError) Error() string { return fmt.Sprintf("git %s: %s", e.what, e.stderr) }

// run calls git and returns its output. The error is an [*exitError] if git ended with another status than 0, and a
// [*Problem] if the reason is known.
func (r *Repository) run(ctx context.Context, c command) (string, error) {
	program := r.options.Git
	if program == "" {
		program = "git"
	}
	if c.dir == "" {
		c.dir = r.common
	}
	if c.total == 0 {
		c.total = quickTimeout
	}
	if c.max == 0 {
		c.max = maxOutput
	}
	out, exit, err := r.start(ctx, proc.Spec{Command: slices.Concat([]string{program}, settings(), c.args), Dir: c.dir,
		Env: r.environment(c), Limits: proc.Limits{Total: c.total, Output: c.max}}, c.input)
	switch {
	case errors.Is(err, errNotInstalled):
		return "", permanent("git is not installed; install git 2.36 or later")
	case errors.Is(err, proc.ErrTotal):
		return "", temporary("git %s did not end within %v", verb(c.args), c.total)
	case errors.Is(err, proc.ErrOutput):
		return "", permanent("git %s printed more than %d MiB: the repository is too large", verb(c.args), c.max>>20)
	case err != nil:
		return "", err
	case !exit.Success():
		return out, explain(&exitError{exit: exit, what: verb(c.args), stderr: lastLine(string(exit.Stderr), exit)})
	}
	return out, nil
}

var errNotInstalled = errors.New("the program is not installed")

// start runs a program with the rights of the agent and returns its output. The error is errNotInstalled, a [*Problem],
// the cause of ctx, or why the program was stopped.
func (r *Repository) start(ctx context.Context, spec proc.Spec, input string) (string, proc.Exit, error) {
	spec.Isolation, spec.Limits.Stderr = r.isolation(), maxStderr
	spec.Limits.Interrupt, spec.Limits.Terminate = time.Second, time.Second
	child, err := proc.Start(spec)
	if errors.Is(err, exec.ErrNotFound) {
		return "", proc.Exit{}, errNotInstalled
	}
	if proc.Exhausted(err) {
		return "", proc.Exit{}, temporary("the machine has no room for another process: %v", err)
	}
	if err != nil {
		return "", proc.Exit{}, diskProblem(err)
	}
	var out strings.Builder
	exit, why := child.Run(ctx, input, func(_ context.Context, piece []byte) error {
		out.Write(piece)
		return nil
	})
	if why != nil && ctx.Err() != nil {
		why = context.Cause(ctx)
	}
	return out.String(), exit, why
}

// verb returns the name of git's command in its arguments.
func verb(args []string) string {
	i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	return args[max(i, 0)]
}

// lastLine returns the line of git's errors that says why it ended.
func lastLine(stderr string, exit proc.Exit) string {
	line := ""
	for l := range strings.Lines(strings.ToValidUTF8(stderr, "")) {
		l = strings.TrimSpace(l)
		if l != "" && (line == "" || !strings.HasPrefix(line, "fatal:")) && !strings.HasPrefix(l, "hint:") {
			line = l
		}
	}
	line = strings.TrimPrefix(strings.TrimPrefix(line, "fatal: "), "error: ")
	if line == "" {
		return exit.String()
	}
	return strings.ToValidUTF8(line[:min(len(line), maxQuoted)], "")
}

// explain replaces errors of git that a person can mend by a sentence that says how.
func explain(e *exitError) error {
	if p, ok := errors.AsType[*Problem](problemOf(e)); ok {
		p.cause = e
		return p
	}
	return e
}

// problemOf returns the problem behind an error of git, or nil if it is not known.
func problemOf(e *exitError) error {
	text := string(e.exit.Stderr)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case has("not a git repository"):
		return permanent("the folder is not in a git repository; set dir to a folder of one, or run git init there")
	case has("dubious ownership"):
		return permanent("the repository belongs to another user; run the agent as that user, or set safe.directory")
	case has("No space left on device", "Disk quota exceeded", "File too large"):
		return temporary("the disk of the worktrees is full; remove some: mailroom worktrees")
	case has("unable to write", "couldn't write", "Could not reset index file", "write error"): // git does not say more
		return temporary("git could not write files, and the disk may be full: %s", e.stderr)
	case has("Read-only file system"):
		return temporary("the repository, or the folder of its worktrees, is read-only")
	case has("filter lfs failed") || has("git-lfs") && has("not found"):
		return permanent("the repository needs git-lfs, which is not installed for the agent; install it, or remove " +
			"filter.lfs from the settings of git")
	case has(".lock': File exists"):
		_, file, _ := strings.Cut(text, "Unable to create '")
		file, _, _ = strings.Cut(file, "': File exists")
		return temporary("another git works in the repository, or was killed there; if no git works, remove its lock: %q",
			file)
	case has("already checked out at", "already used by worktree"):
		return temporary("the branch of the worktree is checked out elsewhere: %s", e.stderr)
	case has("unknown option", "unknown switch"):
		return permanent("this git is too old; install git 2.36 or later")
	}
	return nil
}

// diskProblem replaces an error of a full disk by a sentence.
func diskProblem(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return temporary("the disk of the worktrees is full; remove some: mailroom worktrees")
	case errors.Is(err, syscall.EROFS):
		return temporary("the repository, or the folder of its worktrees, is read-only")
	case errors.Is(err, fs.ErrPermission):
		return permanent("the server may not write the folder of the worktrees: %v", err)
	}
	return err
}

// git calls git in the git folder of the repository.
func (r *Repository) git(ctx context.Context, args ...string) (string, error) {
	out, err := r.run(ctx, command{args: append([]string{"--git-dir=" + r.common}, args...)})
	return strings.TrimSuffix(out, "\n"), err
}

// git calls git in the tree. It names the folders of the tree, because an agent can change the file .git in it, which
// leads git to them.
func (t *Tree) git(ctx context.Context, c command, args ...string) (string, error) {
	c.dir, c.tree = t.record.Path, t.record.Path
	c.args = append([]string{"--git-dir=" + t.admin, "--work-tree=" + t.record.Path}, args...)
	if c.total == 0 {
		c.total = filesTimeout
	}
	return t.repository.run(ctx, c)
}

// failed reports whether git answered no: it ended with status 1 and no error.
func failed(err error) bool {
	e, ok := errors.AsType[*exitError](err)
	return ok && e.exit.Code == 1
}

// refused reports whether git could not do what it was asked for: it ended with status 128, and no kill ended it.
func refused(err error) bool {
	e, ok := errors.AsType[*exitError](err)
	return ok && e.exit.Code == 128
}

// killLeftovers ends the processes of git and of set-up commands that a killed server started for a tree.
func killLeftovers(ctx context.Context, tree string) error {
	_, err := proc.KillLeftovers(ctx, proc.ID{}, func(lookup func(string) (string, bool)) bool {
		return isMarked(lookup, tree)
	})
	return err
}

// isMarked reports whether a process belongs to a tree, given lookup for its environment.
func isMarked(lookup func(string) (string, bool), tree string) bool {
	mark, _ := lookup(envMark)
	return mark == tree
}
