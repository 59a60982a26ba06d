package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// stopTime is how long the processes of a step have to end after an interrupt.
const stopTime = 10 * time.Second

// runCommand runs a program and calls out and errs with each line of its output. A cancelled context interrupts the
// program and the processes that it started, and kills those that do not end.
func runCommand(ctx context.Context, args []string, out, errs func(line string)) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = environment(os.Environ())
	stdout, stderr := &splitter{line: out}, &splitter{line: errs}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	leadGroup(cmd)
	cmd.Cancel = func() error { return interruptGroup(cmd) }
	cmd.WaitDelay = stopTime
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		killGroup(cmd)
	}
	stdout.flush()
	stderr.flush()
	return err
}

// environment removes the variables by which make controls its child processes, because the steps are not jobs of the
// make that started the suite. Variables of its command line, such as GO=go1.27, are in the environment as well.
func environment(all []string) []string {
	var kept []string
	for _, setting := range all {
		switch name, _, _ := strings.Cut(setting, "="); name {
		case "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES":
		default:
			kept = append(kept, setting)
		}
	}
	return kept
}

// splitter calls line with each line that is written, without its newline.
type splitter struct {
	line func(string)
	rest []byte
}

func (s *splitter) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, found := bytes.Cut(s.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		s.line(strings.TrimSuffix(string(line), "\r"))
		s.rest = rest
	}
}

func (s *splitter) flush() {
	if len(s.rest) > 0 {
		s.line(string(s.rest))
		s.rest = nil
	}
}
