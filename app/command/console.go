// Package command has what the commands of mailroom share: streams, output formats, hints and exit codes.
//
// Data goes to standard output and everything else to standard error. On a terminal, text from outside is escaped.
package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mattn/go-isatty"

	"mailroom/internal/display"
)

// Console is the environment of one command.
type Console struct {
	Stdin   io.Reader
	Stdout  io.Writer           // data
	Stderr  io.Writer           // messages for people
	Env     func(string) string // reads a variable, as os.Getenv does
	Environ func() []string     // lists variables, as os.Environ does; nil: no variables
	// Unsetenv removes a variable from the environment of the process, so that child
	// processes do not inherit it. nil: does nothing.
	Unsetenv func(name string) error
	Name     string // os.Args[0], for hints; "" means mailroom

	Data    string // --data
	Context string // --context
	Server  string // URL of the server that the command uses, "" until it is known
	MidLine bool   // Stdout is in the middle of a line
}

// Infof prints a line for people to Stderr, escaped by [display.Text]. A write error does not
// change the outcome of a command, so it is dropped here and only here.
func (c *Console) Infof(format string, args ...any) {
	_, _ = io.WriteString(c.Stderr, display.Text(fmt.Sprintf(format, args...))+"\n")
}

// Stopping prints that the command shuts down.
func (c *Console) Stopping() { c.Infof("shutting down; a second signal exits at once") }

// Prompt asks a question and reads one line from in, which reads Stdin.
func (c *Console) Prompt(in *bufio.Reader, question string) (string, error) {
	fmt.Fprint(c.Stderr, question)
	line, err := in.ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(c.Stderr)
		return "", Errorf(ExitUsage, "use a flag, or answer on standard input", "no answer to %q",
			strings.TrimSpace(question))
	}
	return strings.TrimSpace(line), nil
}

// CommandLine returns a shell command for the same server, for hints.
func (c *Console) CommandLine(words ...string) string {
	line := []string{c.Program(), words[0]}
	line = append(line, c.server()...)
	for _, w := range words[1:] {
		line = append(line, Quote(w))
	}
	return strings.Join(line, " ")
}

// CommandPrefix returns the beginning of a shell command for the same server, for hints to which the words
// of the command are added.
func (c *Console) CommandPrefix() string {
	return strings.Join(append([]string{c.Program()}, c.server()...), " ")
}

// server returns the flags that select the server of this command, for hints.
func (c *Console) server() (flags []string) {
	if c.Data != "" {
		flags = append(flags, "--data", Quote(c.Data))
	}
	if c.Context != "" {
		flags = append(flags, "--context", Quote(c.Context))
	}
	return flags
}

// Program returns the name of this program for hints: its path, if it was started by a path and a shell would find
// another program or none under its name.
func (c *Console) Program() string {
	if !strings.ContainsRune(c.Name, os.PathSeparator) {
		return "mailroom"
	}
	name := filepath.Base(c.Name)
	if found, err := exec.LookPath(name); err == nil && found == c.Name {
		return Quote(name)
	}
	return Quote(c.Name)
}

// Quote quotes word for a shell.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,+", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
