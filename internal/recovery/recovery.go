// Package recovery keeps a panic from ending the process. Each goroutine of the product begins with a deferred call of
// [Error], [Log] or [Handle]; internal/archtest fails on one that does not. A panic then ends the work of that goroutine
// alone, and its owner hears of it as an error.
package recovery

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
)

const (
	// maxValue bounds what is kept of a panic's value, in bytes: it may hold text from outside.
	maxValue = 1 << 10
	// maxStack bounds what is kept of its stack.
	maxStack = 16 << 10
)

// Panic is a recovered panic as an error. Its text has the stack, so it is for logs and not for callers.
type Panic struct {
	Value string // what was panicked with: quoted unless it is plain text, at most 1 KiB
	Stack string // of the goroutine, at most 16 KiB
}

func (p *Panic) Error() string { return "panic: " + p.Value + "\n" + p.Stack }

// LogValue makes a logged panic two attributes.
func (p *Panic) LogValue() slog.Value {
	return slog.GroupValue(slog.String("panic", p.Value), slog.String("stack", p.Stack))
}

// Of describes what recover returned. A deferred function calls it, as the stack is still that of the panic there.
func Of(value any) *Panic {
	return &Panic{Value: quoted(describe(value)), Stack: cut(string(debug.Stack()), maxStack)}
}

// Error stores a panic in *err, in place of what is there. Defer it first in a function with the named result err.
func Error(err *error) {
	if v := recover(); v != nil {
		*err = Of(v)
	}
}

// Log logs a panic; what names the goroutine's work in some words. Defer it first in a goroutine that can end, or skip a
// turn, without harm to what goes on.
func Log(log *slog.Logger, what string) {
	if v := recover(); v != nil {
		Report(log, what, Of(v))
	}
}

// Handle calls f with a panic, after everything deferred later has run. Defer it first in a goroutine whose owner waits for
// more than its end.
func Handle(f func(*Panic)) {
	if v := recover(); v != nil {
		f(Of(v))
	}
}

// Report writes the line of the log about a recovered panic. A nil log is the default one.
func Report(log *slog.Logger, what string, p *Panic) {
	if log == nil {
		log = slog.Default()
	}
	log.Error("panic recovered", "in", what, "panic", p.Value, "stack", p.Stack)
}

// describe is the text of a panic's value. The value's own method may panic as well.
func describe(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T whose text cannot be told", value)
		}
	}()
	switch v := value.(type) {
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	}
	return fmt.Sprint(value)
}

// quoted is text on one line: as it is if it is printable, else as a Go string.
func quoted(text string) string {
	text = cut(text, maxValue)
	if q := strconv.Quote(text); q[1:len(q)-1] != text {
		return q
	}
	return text
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
