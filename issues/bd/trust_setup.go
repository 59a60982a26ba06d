package bd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"mailroom"
	"mailroom/agent/exec/worktree"
	"mailroom/internal/setting"
	"mailroom/issues/tracker"
)

// A repository can bring commands that set up each new worktree of an agent. They run on the machine of the server, so
// the person who owns it trusts their content first, after seeing it. This trust is in a file of its own, which agents
// cannot reach where they are isolated: see [setting.Trust].

// trusting is one call of "bd trust".
type trusting struct {
	m *Main

	// Flags about all that needs trust, and about set-up commands alone.
	show, revoke        bool
	list, check, remove bool
	yes, commit         string
}

// isAboutSetup reports whether a flag asks for set-up commands alone.
func (f *trusting) isAboutSetup() bool {
	return f.list || f.check || f.remove || f.yes != "" || f.commit != ""
}

// repositorySetup is what a commit of the repository has for new worktrees. Setup is nil if it has nothing.
type repositorySetup struct {
	*worktree.Setup
	name    string // under which it is trusted
	folder  string // of the repository
	commit  string
	invalid error // why it cannot be used, or nil
}

// readSetup reads the set-up of the commit. The result is nil if the working directory is in no repository.
func (f *trusting) readSetup(ctx context.Context) (*repositorySetup, error) {
	git := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, tracker.GitTimeout)
		defer cancel()
		// A bare repository is read where the person names it; none of these commands runs a program of it.
		out, err := tracker.Git(ctx, f.m.Dir, append([]string{"-c", "safe.bareRepository=all"}, args...)...).Output()
		return string(out), err
	}
	common, err := git("rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return nil, nil
	}
	common = realPath(strings.TrimSuffix(common, "\n"))
	r := &repositorySetup{name: worktree.SetupName(common), folder: filepath.Dir(worktree.SetupName(common))}
	id, err := git("rev-parse", "--verify", "--quiet", "--end-of-options", cmp.Or(f.commit, "HEAD")+"^{commit}")
	if err != nil {
		if f.commit == "" {
			return r, nil // no commit yet
		}
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "%s has no commit %q; fetch it, or name another", r.folder,
			f.commit)
	}
	r.commit = strings.TrimSpace(id)
	r.Setup, err = worktree.ReadSetup(git, r.commit)
	if p, ok := errors.AsType[*worktree.Problem](err); ok {
		r.invalid, err = mailroom.Errorf(mailroom.CodeInvalid, "%s at %s: %s", r.name, short(r.commit), p.Text), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.name, err)
	}
	return r, nil
}

// short returns the beginning of the id of a commit.
func short(commit string) string { return commit[:min(len(commit), 12)] }

// trustSetup does what the flags say about set-up commands.
func (f *trusting) trustSetup(ctx context.Context, args []string) error {
	if f.list {
		return f.listTrust()
	}
	if f.remove && len(args) > 0 {
		return f.removeTrust(ctx, args[0])
	}
	r, err := f.readSetup(ctx)
	switch {
	case err != nil:
		return err
	case r == nil:
		return mailroom.Errorf(mailroom.CodeInvalid, "%s is in no git repository; change to one", f.m.Dir)
	case f.remove:
		return f.removeTrust(ctx, r.name)
	}
	if r.Setup == nil {
		return f.reportNoSetup(r)
	}
	trust, err := f.readTrust()
	if err != nil {
		return err
	}
	state := trust.Refusal(r.name, r.Digest)
	if f.check || r.invalid != nil {
		if err := f.printSetup(r, trust); err != nil {
			return err
		}
		if r.invalid != nil || state == "" {
			return r.invalid
		}
		return mailroom.Errorf(mailroom.CodeForbidden, "%s %s; look at it and trust it with: bd trust", r.name, state)
	}
	if f.m.readonly {
		return errReadonly()
	}
	if f.yes != "" && f.yes != r.Digest {
		return mailroom.Errorf(mailroom.CodeConflict,
			"the digest of %s at %s is %s, not the one of --yes; look at it again: bd trust --check", r.name,
			short(r.commit), r.Digest)
	}
	if f.yes == "" {
		if err := f.printSetup(r, trust); err != nil || state == "" {
			return err
		}
		if err := f.confirmSetup(r); err != nil {
			return err
		}
	}
	err = f.changeTrust(ctx, func(t setting.Trust) {
		t[r.name] = setting.Trusted{Digest: r.Digest, At: time.Now().UTC().Truncate(time.Second)}
	})
	if err != nil {
		return err
	}
	if f.m.out.json {
		return f.m.out.printJSON(map[string]any{"file": r.name, "commit": r.commit, "digest": r.Digest, "trusted": true})
	}
	return f.m.out.report("Trusted %s at %s", r.name, short(r.commit))
}

// reportNoSetup says that the commit has no set-up, and what to do if the person has written one.
func (f *trusting) reportNoSetup(r *repositorySetup) error {
	if exists(r.name) {
		return mailroom.Errorf(mailroom.CodeInvalid, "%s is in no commit yet; commit it first: worktrees begin at commits",
			r.name)
	}
	if f.m.out.json {
		return f.m.out.printJSON(map[string]any{"file": r.name, "commit": r.commit, "commands": []string{}})
	}
	return f.m.out.report("%s has no %s, so no command of it runs in worktrees", r.folder, worktree.SetupFile)
}

// printSetup shows what would run. Control and invisible characters are escaped.
func (f *trusting) printSetup(r *repositorySetup, trust setting.Trust) error {
	state := cmp.Or(trust.Refusal(r.name, r.Digest), "trusted since "+trust[r.name].At.UTC().Format(time.DateOnly))
	if f.m.out.json {
		return f.m.out.printJSON(map[string]any{"file": r.name, "commit": r.commit, "digest": r.Digest, "text": r.Text,
			"commands": r.Commands, "script": r.Script, "state": state, "trusted": trust.Refusal(r.name, r.Digest) == ""})
	}
	what := fmt.Sprintf("%d commands, without a shell", len(r.Commands))
	switch {
	case r.Script:
		what = "a script"
	case len(r.Commands) == 1:
		what = "1 command, without a shell"
	}
	err := f.m.out.printRows([][]safeText{cells("file", r.name), cells("commit", r.commit), cells("content", what),
		cells("digest", r.Digest), cells("state", state)})
	if err != nil {
		return err
	}
	for text := range strings.Lines(r.Text) {
		if err := f.m.out.print("  | " + block(strings.TrimSuffix(text, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// confirmSetup asks the person at the terminal.
func (f *trusting) confirmSetup(r *repositorySetup) error {
	in, ok := f.m.Stdin.(*os.File)
	if !ok || !isatty.IsTerminal(in.Fd()) || f.m.out.json {
		return mailroom.Errorf(mailroom.CodeInvalid,
			"no terminal to ask at; look at the content above, then run: bd trust --commit %s --yes %s", short(r.commit),
			r.Digest)
	}
	return f.confirm(f.m.Stdin)
}

// confirm asks a question on stderr and reads the answer.
func (f *trusting) confirm(in io.Reader) error {
	f.m.out.logf("Let these commands run on this machine in each new worktree? Type yes:")
	answer, err := bufio.NewReader(io.LimitReader(in, maxAnswer)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.ToLower(strings.TrimSpace(answer)) != "yes" {
		return mailroom.Errorf(mailroom.CodeForbidden, "not trusted: the answer was not yes")
	}
	return nil
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 100

// listTrust prints all that is trusted to run.
func (f *trusting) listTrust() error {
	trust, err := f.readTrust()
	if err != nil {
		return err
	}
	if f.m.out.json {
		return f.m.out.printJSON(trust)
	}
	rows := [][]safeText{cells("file", "digest", "trusted at")}
	for _, name := range slices.Sorted(maps.Keys(trust)) {
		rows = append(rows, cells(name, trust[name].Digest, trust[name].At.UTC().Format(time.RFC3339)))
	}
	if len(rows) == 1 {
		return f.m.out.report("No commands of a repository are trusted")
	}
	return f.m.out.printRows(rows)
}

// removeTrust ends the trust in a file, by its name or by the folder of its repository.
func (f *trusting) removeTrust(ctx context.Context, name string) error {
	if f.m.readonly {
		return errReadonly()
	}
	trust, err := f.readTrust()
	if err != nil {
		return err
	}
	if _, ok := trust[name]; !ok {
		given := name
		if name = realPath(f.m.absPath(given)); filepath.Base(name) != worktree.SetupFile {
			name = filepath.Join(name, worktree.SetupFile)
		}
		if _, ok := trust[name]; !ok {
			return mailroom.Errorf(mailroom.CodeNotFound, "%s is not trusted; list what is: bd trust --list", given)
		}
	}
	if err := f.changeTrust(ctx, func(t setting.Trust) { delete(t, name) }); err != nil {
		return err
	}
	if f.m.out.json {
		return f.m.out.printJSON(map[string]any{"file": name, "trusted": false})
	}
	return f.m.out.report("%s is no longer trusted", name)
}

func (f *trusting) readTrust() (setting.Trust, error) {
	path, err := setting.TrustFile(f.m.Env)
	if err != nil {
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "%s", err.Error())
	}
	trust, err := setting.ReadTrust(path)
	if err != nil {
		return nil, mailroom.Errorf(mailroom.CodeForbidden, "%s", err.Error())
	}
	return trust, nil
}

// changeTrust changes the file of what is trusted to run.
func (f *trusting) changeTrust(ctx context.Context, change func(setting.Trust)) error {
	path, err := setting.TrustFile(f.m.Env)
	if err != nil {
		return mailroom.Errorf(mailroom.CodeInvalid, "%s", err.Error())
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("store trust: %w", err)
	}
	return replaceTrust(ctx, f.m, realPath(folder), filepath.Base(path), func() (any, error) {
		trust, err := setting.ReadTrust(path)
		if err == nil {
			change(trust)
		}
		return trust, err
	})
}
