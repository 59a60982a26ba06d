package bd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"

	"mailroom"
	"mailroom/internal/display"
	"mailroom/issues/tracker"
)

// output prints the results of a command to stdout, and warnings and errors to stderr.
type output struct {
	stdout, stderr io.Writer
	colours        bool // stdout is a terminal, and NO_COLOR is not set

	// Set from the flags.
	json, quiet bool
}

func newOutput(stdout, stderr io.Writer, env func(string) string) output {
	file, ok := stdout.(*os.File)
	return output{stdout: stdout, stderr: stderr, colours: ok && env("NO_COLOR") == "" && isatty.IsTerminal(file.Fd())}
}

// printError prints an error as one line to stderr, and with --json as an object to stdout.
func (o *output) printError(err error, hint string) {
	message := err.Error()
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		message = e.Message
	}
	if text, rest, found := strings.Cut(message, "; "); found && hint == "" {
		message, hint = text, rest
	}
	text := "Error: " + message
	if hint != "" {
		text += " (" + strings.TrimSpace(hint) + ")"
	}
	o.logf("%s", text)
	if o.json {
		body := struct {
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
		}{message, hint}
		if err := o.printJSON(body); err != nil {
			o.logf("%v", err)
		}
	}
}

// logf prints a line to stderr. It ignores write errors, because they change no result.
func (o *output) logf(format string, args ...any) {
	_, _ = fmt.Fprintln(o.stderr, line(fmt.Sprintf(format, args...)))
}

// report prints a line about the result to stdout, unless --quiet or --json is set.
func (o *output) report(format string, args ...any) error {
	if o.quiet || o.json {
		return nil
	}
	return o.print(line(fmt.Sprintf(format, args...)))
}

func (o *output) printJSON(v any) error {
	e := json.NewEncoder(o.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// safeText is text that is safe for a terminal. Text of a file becomes safe only through line,
// block or colour, which escape control and invisible characters.
type safeText string

// line returns text on one line.
func line(s string) safeText { return safeText(display.Line(strings.TrimSpace(s))) }

// block returns text on several lines.
func block(s string) safeText { return safeText(display.Text(s)) }

// cells returns the cells of one row.
func cells(words ...string) []safeText {
	row := make([]safeText, len(words))
	for i, word := range words {
		row[i] = line(word)
	}
	return row
}

// print writes lines.
func (o *output) print(lines ...safeText) error {
	for _, l := range lines {
		if _, err := fmt.Fprintln(o.stdout, l); err != nil {
			return err
		}
	}
	return nil
}

// colour returns one line of text, in colour on a terminal.
func (o *output) colour(code int, text string) safeText {
	if !o.colours || code == 0 {
		return line(text)
	}
	return safeText(fmt.Sprintf("\x1b[%dm%s\x1b[0m", code, line(text)))
}

// ANSI colours.
const (
	red    = 31
	green  = 32
	yellow = 33
	blue   = 34
	grey   = 90
)

func (o *output) status(s tracker.Status) safeText {
	code := 0
	switch s {
	case tracker.StatusOpen:
		code = green
	case tracker.StatusInProgress, tracker.StatusHooked:
		code = yellow
	case tracker.StatusBlocked:
		code = red
	case tracker.StatusClosed, tracker.StatusTombstone:
		code = grey
	}
	return o.colour(code, string(s))
}

func (o *output) urgency(p int) safeText {
	text := "P" + number(p)
	if p <= 1 {
		return o.colour(red, text)
	}
	return safeText(text)
}
