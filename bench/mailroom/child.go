package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// child is a child process that runs this program.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader // standard output of the child, or standard error of a server

	once sync.Once
	err  error
}

// startChild starts this program as a child process. lines reads its standard error if talk is
// set, else its standard output.
func (b *bench) startChild(ctx context.Context, env []string, talk bool, args ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, b.Executable, args...)
	cmd.Env = append(os.Environ(), env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	open := cmd.StdoutPipe
	if talk {
		open = cmd.StderrPipe
	}
	out, err := open()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	return &child{cmd: cmd, stdin: stdin, lines: bufio.NewReader(out)}, nil
}

// waitLine reads lines until one starts with prefix, and returns that line.
func (c *child) waitLine(words string) (string, error) {
	said := ""
	for {
		line, err := c.lines.ReadString('\n')
		if strings.HasPrefix(line, words) {
			return line, nil
		}
		said += line
		if err != nil {
			return "", fmt.Errorf("child process ended: %w: %s", errors.Join(c.wait(), err), strings.TrimSpace(said))
		}
	}
}

// wait waits until the process has ended.
func (c *child) wait() error {
	c.once.Do(func() { c.err = c.cmd.Wait() })
	return c.err
}

// finish closes the standard input, which ends the process, and waits.
func (c *child) finish() error {
	return errors.Join(c.stdin.Close(), c.wait())
}

// kill kills the process.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	// A killed process has an exit status that Wait reports as an error.
	if err := c.wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			return err
		}
	}
	return nil
}

// untilInputEnds returns a context of a child process that ends with its standard input, which the parent closes.
func untilInputEnds(ctx context.Context, stdin io.Reader) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		// This goroutine ends with the process, because reading standard input cannot be
		// interrupted. An error counts as the end.
		_, _ = io.Copy(io.Discard, stdin)
		stop()
	}()
	return ctx, stop
}
