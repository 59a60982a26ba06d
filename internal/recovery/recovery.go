// Package recovery keeps a panic from ending the process. Each goroutine of the product begins with a deferred call of
// [Log], [Error] or [Handle]; internal/archtest fails on one that does not. A panic then ends the work of that
// goroutine alone, and its owner gets an error.
package recovery

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
)

const (
	// maxValue bounds the stored text of a panic's value, in bytes: it may contain outside text.
	maxValue = 1 << 10
	// maxStack bounds the stored stack, in bytes.
	maxStack = 16 << 10
)

// Panic is a recovered panic as an error. Its text has no stack, because clients may see it where errors of code
// internal are shown.
type Panic struct {
	Value string // the panic's value: quoted unless it is plain text, at most 1 KiB
	Stack string // stack of the goroutine, at most 16 KiB
}

func (p *Panic) Error() string { return "panic: " + p.Value }

// NewPanic returns the Panic of a value that recover returned. Only the deferred function that called recover still
// sees the stack of the panic.
func NewPanic(value any) *Panic {
	return &Panic{Value: quoted(describe(value)), Stack: cut(string(debug.Stack()), maxStack)}
}

// Log recovers and logs a panic; what names the goroutine's work. A nil log is the default logger. Defer it first in a
// goroutine whose early end harms nothing else.
func Log(log *slog.Logger, what string) {
	if v := recover(); v != nil {
		NewPanic(v).Log(log, what)
	}
}

// Error logs a panic as Log does and stores it in *err. Defer it first in a function that returns its error to its
// owner.
func Error(log *slog.Logger, what string, err *error) {
	if v := recover(); v != nil {
		p := NewPanic(v)
		p.Log(log, what)
		*err = p
	}
}

// Handle logs a panic as Log does and calls f with it. Deferred first, it calls f after all other deferred calls.
func Handle(log *slog.Logger, what string, f func(*Panic)) {
	if v := recover(); v != nil {
		p := NewPanic(v)
		p.Log(log, what)
		f(p)
	}
}

// Call calls f and returns its error, or its panic as an error.
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

// describe formats a panic's value. The value's own method may panic too.
func describe(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T that cannot be formatted", value)
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

// quoted returns text on one line: quoted as a Go string unless it is printable.
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
