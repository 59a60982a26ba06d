package bell

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"mailroom/internal/retry"
)

// Codex is a thread of codex, since its version 0.149, which has the command queue. A notice starts a turn of an idle
// session, and waits for the end of the turn of a busy one.
type Codex struct {
	Program string // path of codex
	Home    string // CODEX_HOME of the session; "": the user's
	Thread  string // id of the thread, a UUID: codex would take another text for a name
}

// Policy returns the pauses after rings. They are long: each notice becomes a turn of its own, also one that waited
// while the session was busy.
func (c *Codex) Policy() retry.Policy {
	return retry.Policy{First: 5 * time.Minute, Factor: 3, Most: time.Hour}
}

// codexTimeout bounds one call of codex.
const codexTimeout = 10 * time.Second

// Ring queues the text in the thread.
func (c *Codex) Ring(ctx context.Context, text string) error {
	if _, err := uuid.Parse(c.Thread); err != nil {
		return fmt.Errorf("%w: %q is not the id of a thread of codex", ErrGone, c.Thread)
	}
	ctx, cancel := context.WithTimeout(ctx, codexTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Program, "queue", "--thread", c.Thread, "--message", text)
	cmd.WaitDelay = time.Second
	cmd.Env = os.Environ()
	if c.Home != "" {
		cmd.Env = append(cmd.Env, "CODEX_HOME="+c.Home)
	}
	var out limited
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch said := out.line(); {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: no program %s", ErrGone, c.Program)
	case strings.Contains(said, "unrecognized subcommand"):
		return fmt.Errorf("%w: this codex is older than 0.149 and has no command queue", ErrGone)
	default:
		return fmt.Errorf("ring codex: %w: %s", err, cmp.Or(said, "no output"))
	}
}

// limited keeps the first part of an output.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if room := 2<<10 - l.Len(); room > 0 {
		_, _ = l.Buffer.Write(b[:min(len(b), room)]) // writes to memory cannot fail
	}
	return len(b), nil
}

// line returns the first line that says something.
func (l *limited) line() string {
	for line := range strings.Lines(l.String()) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// locks is the folder in CODEX_HOME with a file for each open thread, which the process of its session holds open.
const locks = "thread-writer-locks"

// CodexFrom returns the threads that are open in process pid, which is the parent of an MCP server: the session itself,
// or a daemon that serves all sessions of the user. Codex gives an MCP server neither thread nor
// home when it starts it, but holds a lock on each open thread. It returns nothing on a system without /proc.
func CodexFrom(pid int) (all []*Codex) {
	base := filepath.Join("/proc", fmt.Sprint(pid))
	open, err := os.ReadDir(filepath.Join(base, "fd"))
	if err != nil {
		return nil // another system, or the process has ended
	}
	program, err := os.Readlink(filepath.Join(base, "exe"))
	if err != nil {
		return nil
	}
	found := map[string]bool{}
	for _, fd := range open {
		file, err := os.Readlink(filepath.Join(base, "fd", fd.Name()))
		if err != nil || found[file] || filepath.Base(filepath.Dir(file)) != locks {
			continue
		}
		found[file] = true
		thread, _ := strings.CutSuffix(filepath.Base(file), ".lock")
		if _, err := uuid.Parse(thread); err == nil {
			all = append(all, &Codex{Program: program, Home: filepath.Dir(filepath.Dir(file)), Thread: thread})
		}
	}
	return all
}
