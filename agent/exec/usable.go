package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom/agent/exec/program"
	"mailroom/internal/proc"
)

// UsableCommand returns an error if the command of an agent of kind exec cannot be started in the working folder dir.
// If dir is "", that is the server's own folder. The error contains no path, because other users may see it.
func UsableCommand(command []string, dir string) error {
	return findProgram(command[0], dir, "the command")
}

// findProgram returns an error unless the program name can be found and the folder dir exists. A relative path begins
// at dir. what names the program in the error.
func findProgram(name, dir, what string) error {
	if dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return errors.New("the working directory does not exist")
		}
	}
	if !strings.ContainsRune(name, os.PathSeparator) {
		if _, err := osexec.LookPath(name); err != nil {
			return fmt.Errorf("not installed: no program %s in PATH", name)
		}
		return nil
	}
	if dir != "" && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	if _, err := osexec.LookPath(name); err != nil {
		return fmt.Errorf("the configured path of %s does not exist or is not executable", what)
	}
	return nil
}

// Usable returns an error if a program cannot run with these options, and nil if no problem is known. The error
// contains no path.
func Usable(o ProgramOptions) error {
	if err := findProgram(cmp.Or(o.Program, o.Profile.Program), o.Dir, o.Profile.Name); err != nil {
		return err
	}
	if o.Profile.CheckEnvironment == nil {
		return nil
	}
	allowed := o.EnvAllow
	if allowed == nil {
		allowed = EnvAllow(o.Profile)
	}
	why := o.Profile.CheckEnvironment(program.Environment{
		Mode: cmp.Or(o.Permissions, o.Profile.Modes[0]),
		Root: os.Geteuid() == 0 && (o.Isolation == nil || o.Isolation.User == nil),
		Lookup: func(name string) (value string, ok bool) {
			for _, e := range o.Env {
				if n, v, _ := strings.Cut(e, "="); n == name {
					value, ok = v, true // the last value wins
				}
			}
			if !ok && slices.Contains(allowed, name) {
				value, ok = os.LookupEnv(name)
			}
			return value, ok
		},
	})
	if why != "" {
		return errors.New(why)
	}
	return nil
}

const (
	// versionTimeout bounds the query for a version. A cold start of a large program on a busy
	// machine is slow.
	versionTimeout = 20 * time.Second
	maxVersion     = 80 // characters
)

// errAnswered stops a program that has said its version, and waits for more input.
var errAnswered = errors.New("the program has said its version")

// versionArgs returns the arguments with which a program says its version. A program that is asked by input gets the
// arguments of a turn.
func versionArgs(p *program.Profile) []string {
	if p.Hello != "" {
		return p.Args(program.Turn{})
	}
	return p.Version
}

// Version returns the first line of the output of the program's version command, or what the program says about
// itself when a connection begins.
func Version(ctx context.Context, o ProgramOptions) (string, error) {
	if o.EnvAllow == nil {
		o.EnvAllow = EnvAllow(o.Profile)
	}
	a := &agent{options: Options{Env: o.Env, EnvAllow: o.EnvAllow}}
	env, _ := a.variables()
	if o.Mark != "" {
		env = append(env, envMark+"="+o.Mark)
	}
	leave := o.Alone.enter(ctx)
	answered := false
	defer func() { leave(answered) }()
	hello := proc.NewInput(o.Profile.Hello)
	if o.Profile.Hello == "" {
		hello.Close()
	}
	child, err := proc.Start(proc.Spec{
		Command: append([]string{cmp.Or(o.Program, o.Profile.Program)}, versionArgs(o.Profile)...), Env: env, Dir: o.Dir,
		Isolation: o.Isolation,
		Limits:    proc.Limits{Total: versionTimeout, Output: 64 << 10, Interrupt: time.Second, Terminate: time.Second},
	})
	if err != nil {
		return "", errors.New("the program failed to start")
	}
	var output, answer strings.Builder
	var lines program.Lines
	exit, why := child.RunWithInput(ctx, hello, func(_ context.Context, piece []byte) error {
		output.Write(piece)
		if o.Profile.HelloAnswer == nil {
			return nil
		}
		for _, line := range lines.Add(piece) {
			if text, ok := o.Profile.HelloAnswer(line); ok {
				answer.WriteString(text)
				return errAnswered
			}
		}
		return nil
	})
	if errors.Is(why, errAnswered) {
		answered = true
		why, exit.Code, output = nil, 0, answer
	}
	line, _, _ := strings.Cut(strings.TrimSpace(output.String()), "\n")
	line = strings.TrimSpace(strings.ToValidUTF8(line, ""))
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(why, proc.ErrTotal):
		return "", fmt.Errorf("no version within %v", versionTimeout)
	case why != nil || !exit.Success() || line == "":
		return "", fmt.Errorf("no version: the program ended with %v", exit)
	}
	if r := []rune(line); len(r) > maxVersion {
		line = string(r[:maxVersion])
	}
	return line, nil
}

// Reap kills the processes that a killed server started with this mark, and removes the copies of
// files that it made for them. It returns the number of killed processes. No other process may be
// using the mark. On systems other than Linux it kills nothing.
func Reap(ctx context.Context, mark string) (int, error) {
	if mark == "" {
		return 0, nil
	}
	n, err := proc.KillLeftovers(ctx, proc.ID{}, func(lookup func(string) (string, bool)) bool {
		value, _ := lookup(envMark)
		return value == mark
	})
	return n, errors.Join(err, removeCopies(mark))
}
