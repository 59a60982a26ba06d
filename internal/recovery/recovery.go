// Package recovery keeps a panic from ending the process. Each goroutine of the product begins with a deferred call of
// [Log], [Error] or [Handle]; internal/archtest fails on one that does not. A panic then ends the work of that goroutine
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

// Panic is a recovered panic as an error. Its text has no stack, so that callers may see it where errors of code internal
// are shown.
type Panic struct {
	Value string // what was panicked with: quoted unless it is plain text, at most 1 KiB
	Stack string // of the goroutine, at most 16 KiB
}

func (p *Panic) Error() string { return "panic: " + p.Value }

// Of describes what recover returned. Only the deferred function that called recover still sees the stack of the panic.
func Of(value any) *Panic {
	return &Panic{Value: quoted(describe(value)), Stack: cut(string(debug.Stack()), maxStack)}
}

// Log logs a panic; what names the goroutine's work in some words. A nil log is the default one. Defer it first in a
// goroutine that may end early without harm to what goes on.
func Log(log *slog.Logger, what string) {
	if v := recover(); v != nil {
		Of(v).Log(log, what)
	}
}

// Error logs a panic as Log does and stores it in *err, in place of what is there. Defer it first in a function whose owner
// hears of its error.
func Error(log *slog.Logger, what string, err *error) {
	if v := recover(); v != nil {
		p := Of(v)
		p.Log(log, what)
		*err = p
	}
}

// Handle logs a panic as Log does and calls f with it. Deferred first, it calls f after everything that was deferred later.
func Handle(log *slog.Logger, what string, f func(*Panic)) {
	if v := recover(); v != nil {
		p := Of(v)
		p.Log(log, what)
		f(p)
	}
}

// Call calls f and returns its error, or its panic as Error would.
func Call(log *slog.Logger, what string, f func() error) (err error) {
	defer Error(log, what, &err)
	return f()
}

func (p *Panic) Log(log *slog.Logger, what string) {
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
