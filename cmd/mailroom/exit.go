package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"mailroom"
	"mailroom/internal/config"
	"mailroom/internal/datadir"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1  // also: cancelled
	exitUsage       = 2  // or invalid input
	exitWaiting     = 3  // for a decision
	exitServer      = 4  // no server, or not authorized
	exitRestart     = 75 // server: restart it (EX_TEMPFAIL)
	exitConfig      = 78 // server: fix the configuration first (EX_CONFIG)
	exitInterrupted = 130
)

// exitError is an error with an exit code and an optional hint what to do.
type exitError struct {
	code int
	hint string
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// exitErrorf returns an [*exitError] with a formatted message.
func exitErrorf(code int, hint, format string, args ...any) error {
	return &exitError{code: code, hint: hint, err: fmt.Errorf(format, args...)}
}

// unsuccessfulError ends a command whose run failed or was cancelled. The reason has
// been printed by then.
type unsuccessfulError struct{ status mailroom.Status }

func (e *unsuccessfulError) Error() string { return "the run is " + string(e.status) }

// usageError is an invalid command line.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }

func noServer(err error, dir datadir.Dir, start string) error {
	hint := "start one with `" + start + "`"
	if errors.Is(err, fs.ErrNotExist) {
		return exitErrorf(exitServer, hint, "no server on %s", dir)
	}
	return exitErrorf(exitServer, hint, "%w", err)
}

// reportError prints err and its hint, and returns the exit code.
func (m *Main) reportError(ctx context.Context, err error) int {
	code, hint := exitFailed, ""
	message := err.Error()
	if e, ok := errors.AsType[*usageError](err); ok {
		code, hint = exitUsage, "see `"+e.command+" --help`"
	} else if e, ok := errors.AsType[*exitError](err); ok {
		code, hint = e.code, e.hint
	} else if _, ok := errors.AsType[*unsuccessfulError](err); ok {
		return exitFailed
	} else if _, ok := errors.AsType[*findingsError](err); ok {
		return exitFailed
	} else if _, ok := errors.AsType[*waitingError](err); ok {
		return exitWaiting
	} else if _, ok := errors.AsType[*config.Error](err); ok {
		code = exitUsage
	} else if ctx.Err() != nil {
		return exitInterrupted
	} else if e, ok := errors.AsType[*mailroom.Error](err); ok {
		code, message, hint = m.explainServerError(e)
	}
	m.printError(message, hint)
	return code
}

// explainServerError turns an error of the server into an exit code, a message and a hint.
func (m *Main) explainServerError(e *mailroom.Error) (code int, message, hint string) {
	message = e.Error()
	switch e.Code {
	case mailroom.CodeInvalid, mailroom.CodeTooLarge:
		code = exitUsage
		for _, f := range e.Fields {
			message = strings.ReplaceAll(message, f.Location+": "+f.Message, fieldText(f))
			if !strings.Contains(message, f.Message) {
				hint += "\n  " + fieldText(f)
			}
		}
	case mailroom.CodeUnauthenticated:
		code, hint = exitServer, "set MAILROOM_TOKEN, or name the server's data folder with --data"
	case mailroom.CodeForbidden, mailroom.CodeQuotaExceeded:
		code = exitServer
	case mailroom.CodeUnavailable:
		code = exitServer
		if errors.Is(e, syscall.ECONNREFUSED) {
			message, hint = "no server at "+m.url, "start one with `"+m.commandLine("serve")+"`"
		} else if _, ok := errors.AsType[*tls.CertificateVerificationError](e); ok && m.data == "" {
			hint = "if this is the right server, set MAILROOM_CA to a file with its certificate or its CA's"
		}
	case mailroom.CodeRateLimited:
		code = exitFailed
		if e.RetryAfter > 0 {
			hint = "try again in " + e.RetryAfter.String()
		}
	default:
		code = exitFailed
	}
	return code, message, hint
}
