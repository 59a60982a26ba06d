package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom/entry"
	"mailroom/internal/display"
	"mailroom/internal/proc"
	"mailroom/internal/setting"
)

// The set-up of a tree is the last step before its first run: the commands that its base commit has in [SetupFile], one
// after the other. Each is an effect: the record says that it begins, then that it has ended. So a command that has
// ended with success is not repeated, and one that was cut begins again from its start, and its report says so.
//
// Nothing of it runs before the person who owns the machine trusts the content, see [setting.Trust]. The content counts
// that the base commit has, not the tree: neither an agent nor the branch of a stranger brings commands of its own.

// setup is the state of a tree's set-up. A tree whose record has none needs none.
type setup struct {
	Done    int  `json:"done,omitempty"`  // commands that have ended with success
	Begun   bool `json:"begun,omitempty"` // the next one has begun
	Ended   bool `json:"ended,omitempty"` // all have ended, or the set-up is skipped
	Skipped bool `json:"skipped,omitempty"`
	// Report is about the last command, until its receiver has it.
	Report *entry.Setup `json:"report,omitempty"`
}

// SetupOptions say how set-up commands run.
type SetupOptions struct {
	// Trust is the path of the file that [setting.ReadTrust] reads; "" trusts nothing.
	Trust string
	// Redact returns the last max bytes of an output, without secrets. Longest is the length of the longest secret, in
	// bytes.
	Redact  func(out []byte, max int) string
	Longest int
}

const (
	// setupTimeout bounds one command.
	setupTimeout = 15 * time.Minute
	maxSetupKept = 4 << 10 // bytes of each of the two outputs that a report keeps
)

// UntrustedError says that a tree has set-up commands and may not run them. Only the person who owns the machine can
// change that, or decide to go on without them, see [SkipSetup].
type UntrustedError struct {
	Name   string // of the file, under which it is trusted
	Folder string // of the repository
	Commit string // that has the content
	Digest string // of the content, "" if it could not be read
	Why    string // the rest of a sentence that begins with the name
}

// Error returns one sentence that says what to do.
func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%q %s, so nothing of it runs: run bd trust --commit %s in %q, as the account of the server",
		e.Name, e.Why, e.Commit[:min(len(e.Commit), 12)], e.Folder)
}

// SetupError says that a command of a set-up has failed, as one sentence.
type SetupError struct{ Text string }

func (e *SetupError) Error() string { return e.Text }

// needsSetup records that a new tree has to be set up, if its base commit has commands.
func needsSetup(ctx context.Context, t *Tree) error {
	out, err := t.repository.git(ctx, "ls-tree", "--full-tree", t.record.Base, "--", SetupFile)
	if t.record.Setup = nil; out != "" {
		t.record.Setup = &setup{}
	}
	return err
}

// SetUp runs the set-up commands of a new tree, unless they have run. It gives an entry about each command to report,
// perhaps twice if the server is killed. The error is an [*UntrustedError], a [*SetupError], or of a kind that
// [Repository.Acquire] returns.
func SetUp(ctx context.Context, t *Tree, o SetupOptions, report func(entry.Setup) error) error {
	s := &setupRun{tree: t, state: t.record.Setup, options: o, report: report}
	if s.state == nil || s.state.Ended && s.state.Report == nil {
		return nil
	}
	if err := s.deliver(); err != nil || s.state.Ended {
		return err
	}
	var err error
	if s.commands, err = s.trusted(ctx); err != nil {
		return err
	}
	for s.state.Done < len(s.commands) {
		if err := s.next(ctx); err != nil {
			return err
		}
	}
	s.state.Ended = true
	return s.write()
}

// SkipSetup records that a tree is used without its set-up.
func SkipSetup(t *Tree) error {
	t.record.Setup = &setup{Ended: true, Skipped: true}
	return t.repository.write(&t.record)
}

// setupRun is a set-up that runs. state is in the record of the tree.
type setupRun struct {
	tree     *Tree
	state    *setup
	options  SetupOptions
	report   func(entry.Setup) error
	commands [][]string
}

func (s *setupRun) write() error { return s.tree.repository.write(&s.tree.record) }

// deliver passes the report on that the record has.
func (s *setupRun) deliver() error {
	if s.state.Report == nil {
		return nil
	}
	if err := s.report(*s.state.Report); err != nil {
		return err
	}
	s.state.Report = nil
	return s.write()
}

// trusted returns the commands of the base commit, if the person trusts them.
func (s *setupRun) trusted(ctx context.Context) ([][]string, error) {
	t, r := s.tree, s.tree.repository
	u := &UntrustedError{Name: SetupName(r.common), Folder: personal(r.common), Commit: t.record.Base}
	found, err := ReadSetup(func(args ...string) (string, error) {
		return r.run(ctx, command{tree: t.record.Path, args: append([]string{"--git-dir=" + r.common}, args...)})
	}, t.record.Base)
	if p, ok := errors.AsType[*Problem](err); ok && p.cause == nil && !p.Temporary {
		u.Why = "cannot be used (" + p.Text + ")"
		return nil, u
	}
	if err != nil || found == nil {
		return nil, err
	}
	u.Digest = found.Digest
	if s.options.Trust == "" {
		u.Why = "is not trusted (the server has no folder for user settings; start it with HOME or XDG_CONFIG_HOME)"
		return nil, u
	}
	trust, err := setting.ReadTrust(s.options.Trust)
	if err != nil {
		u.Why = "is not trusted (" + err.Error() + ")"
		return nil, u
	}
	if u.Why = trust.Refusal(u.Name, found.Digest); u.Why != "" {
		return nil, u
	}
	if found.Script {
		// The script runs in its place. git may have changed it while it wrote the tree, by a filter, or the branch has
		// another one.
		path := filepath.Join(t.record.Path, SetupFile)
		info, err := os.Lstat(path)
		same := err == nil && info.Mode().IsRegular() && info.Size() == int64(len(found.Text))
		if same {
			raw, err := os.ReadFile(path)
			same = err == nil && string(raw) == found.Text
		}
		if !same {
			u.Why = "differs in the worktree from its base commit"
			return nil, u
		}
	}
	return found.Commands, nil
}

// next runs the next command and records its end.
func (s *setupRun) next(ctx context.Context) error {
	state, command := s.state, s.commands[s.state.Done]
	rep := entry.Setup{Number: state.Done + 1, Of: len(s.commands), Command: shown(command), Again: state.Begun}
	if !state.Begun {
		state.Begun = true
		if err := s.write(); err != nil {
			return err
		}
	}
	if err := s.run(ctx, command, &rep); err != nil {
		return err
	}
	state.Begun, state.Report = false, &rep
	if rep.Failure == "" {
		state.Done++
	}
	if err := s.write(); err != nil {
		return err
	}
	if err := s.deliver(); err != nil || rep.Failure == "" {
		return err
	}
	text := fmt.Sprintf("the set-up of worktree %s failed: %s: %s", s.tree.record.Key, rep.Command, rep.Failure)
	if line := lastOf(rep.Stderr, rep.Stdout); line != "" {
		text += ": " + line
	}
	return &SetupError{Text: text}
}

// run runs one command with the rights and the environment of the agent, and puts its end into a report.
func (s *setupRun) run(ctx context.Context, command []string, rep *entry.Setup) error {
	t, r, o := s.tree, s.tree.repository, s.options
	env := slices.DeleteFunc(slices.Clone(r.options.Env), func(e string) bool { return strings.HasPrefix(e, "GIT_") })
	spec := proc.Spec{Command: command, Dir: t.record.Path,
		Env:     append(env, "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=false", envMark+"="+t.record.Path),
		Belongs: func(lookup func(string) (string, bool)) bool { return isMarked(lookup, t.record.Path) },
		Limits: proc.Limits{Total: setupTimeout, Output: maxOutput, Stderr: maxSetupKept + o.Longest,
			Interrupt: 2 * time.Second, Terminate: time.Second}}
	if i := r.options.Isolation; i != nil { // it reaches no other tree, as the agent does not
		own := *i
		own.Keep = append(slices.Clone(i.Keep), t.record.Path)
		spec.Isolation = &own
	}
	if name := command[0]; filepath.Base(name) != name && !filepath.IsAbs(name) { // else it is one of the server's folder
		spec.Command = append([]string{filepath.Join(t.record.Path, name)}, command[1:]...)
	}
	child, err := proc.Start(spec)
	if err != nil {
		rep.Failure = "it cannot be started: " + display.Line(err.Error())
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			rep.Failure = "the program is not installed"
		}
		return nil
	}
	out := &lastBytes{max: maxSetupKept + o.Longest}
	exit, why := child.Run(ctx, "", func(_ context.Context, piece []byte) error {
		out.add(piece)
		return nil
	})
	rep.DurationMS = exit.Duration.Milliseconds()
	rep.Stdout, rep.Stderr = o.Redact(out.buf, maxSetupKept), o.Redact(exit.Stderr, maxSetupKept)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(why, proc.ErrTotal):
		rep.Failure = fmt.Sprintf("it did not end within %v", setupTimeout)
	case errors.Is(why, proc.ErrOutput):
		rep.Failure = fmt.Sprintf("it printed more than %d MiB", maxOutput>>20)
	case why != nil:
		rep.Failure = display.Line(why.Error())
	case !exit.Success():
		rep.Failure = exit.String()
	}
	return nil
}

// lastBytes keeps the last max bytes that are added to it.
type lastBytes struct {
	max int
	buf []byte
}

func (l *lastBytes) add(piece []byte) {
	l.buf = append(l.buf, piece...)
	l.buf = slices.Delete(l.buf, 0, max(0, len(l.buf)-l.max))
}

// shown returns a command as one line for a person.
func shown(command []string) string {
	line := display.Line(strings.Join(command, " "))
	return strings.ToValidUTF8(line[:min(len(line), maxQuoted)], "")
}

// lastOf returns the last line that has text, of the first output that has one.
func lastOf(outputs ...string) string {
	for _, out := range outputs {
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if last := display.Line(strings.TrimSpace(lines[len(lines)-1])); last != "" {
			return strings.ToValidUTF8(last[:min(len(last), maxQuoted)], "")
		}
	}
	return ""
}
