package main

import (
	"github.com/spf13/cobra"

	"mailroom/internal/console"
)

// addChannelCommand and what follows are for the commands in channels_add*.go.
func addChannelCommand(con *console.Console) *cobra.Command {
	m := &Main{con: con, Stdin: con.Stdin, Stdout: con.Stdout, Stderr: con.Stderr, Env: con.Env, Name: con.Name}
	return m.addChannelCommand()
}

func (m *Main) infof(format string, args ...any)   { m.con.Infof(format, args...) }
func (m *Main) commandLine(words ...string) string { return m.con.CommandLine(words...) }

type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return console.Errorf(e.code, "", "%w", e.err) }

func exitErrorf(code int, hint, format string, args ...any) error {
	return console.Errorf(code, hint, format, args...)
}

const (
	exitDone   = console.ExitDone
	exitFailed = console.ExitFailed
	exitUsage  = console.ExitUsage
)

func quote(word string) string { return console.Quote(word) }
