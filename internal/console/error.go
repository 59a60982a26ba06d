package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"mailroom"
)

// Exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1  // also: cancelled
	ExitUsage       = 2  // or invalid input
	ExitWaiting     = 3  // for a decision
	ExitServer      = 4  // no server, or not authorized
	ExitRestart     = 75 // server: restart it (EX_TEMPFAIL)
	ExitConfig      = 78 // server: fix the configuration first (EX_CONFIG)
	ExitInterrupted = 130
)

// Error is an error with an exit code.
type Error struct {
	Code int
	Hint string // what to do; "" without a hint
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its exit code.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an [*Error] with a formatted message.
func Errorf(code int, hint, format string, args ...any) error {
	return &Error{Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// UsageErrorf returns an [*Error] for an invalid command line, with a hint to the command's help.
func UsageErrorf(cmd *cobra.Command, format string, args ...any) error {
	return Errorf(ExitUsage, "see `"+cmd.CommandPath()+" --help`", format, args...)
}

// PrintedError ends a command with an exit code. The command has printed the reason already.
type PrintedError struct {
	Code   int
	Reason string
}

func (e *PrintedError) Error() string { return e.Reason }

// ReportError prints err and its hint, and returns the exit code.
func (c *Console) ReportError(ctx context.Context, err error) int {
	code, hint := ExitFailed, ""
	message := err.Error()
	if e, ok := errors.AsType[*Error](err); ok {
		code, hint = e.Code, e.Hint
	} else if e, ok := errors.AsType[*PrintedError](err); ok {
		return e.Code
	} else if ctx.Err() != nil {
		return ExitInterrupted
	} else if e, ok := errors.AsType[*mailroom.Error](err); ok {
		code, message, hint = c.explainServerError(e)
	}
	if hint != "" && !strings.HasPrefix(hint, "\n") {
		hint = ": " + hint
	}
	c.Infof("mailroom: %s%s", message, hint)
	return code
}

// explainServerError turns an error of the server into an exit code, a message and a hint.
func (c *Console) explainServerError(e *mailroom.Error) (code int, message, hint string) {
	message = e.Error()
	switch e.Code {
	case mailroom.CodeInvalid, mailroom.CodeTooLarge:
		code = ExitUsage
		for _, f := range e.Fields {
			message = strings.ReplaceAll(message, f.Location+": "+f.Message, fieldText(f))
			if !strings.Contains(message, f.Message) {
				hint += "\n  " + fieldText(f)
			}
		}
	case mailroom.CodeUnauthenticated:
		code, hint = ExitServer, "set MAILROOM_TOKEN, or name the server's data folder with --data"
	case mailroom.CodeForbidden, mailroom.CodeQuotaExceeded:
		code = ExitServer
	case mailroom.CodeUnavailable:
		code = ExitServer
		if errors.Is(e, syscall.ECONNREFUSED) {
			message, hint = "no server at "+c.Server, "start one with `"+c.CommandLine("serve")+"`"
		} else if _, ok := errors.AsType[*tls.CertificateVerificationError](e); ok && c.Data == "" {
			hint = "if this is the right server, set MAILROOM_CA to a file with its certificate or its CA's"
		}
	case mailroom.CodeRateLimited:
		code = ExitFailed
		if e.RetryAfter > 0 {
			hint = "try again in " + e.RetryAfter.String()
		}
	default:
		code = ExitFailed
	}
	return code, message, hint
}

// fieldText formats a field error for a user of a command: with the field's name instead of its path in the JSON of the
// request.
func fieldText(f mailroom.Field) string {
	name := f.Location[strings.LastIndexByte(f.Location, '.')+1:]
	if name, _, _ = strings.Cut(name, "["); name == "" || name == "body" || strings.Contains(f.Message, name) {
		return f.Message
	}
	return name + ": " + f.Message
}
