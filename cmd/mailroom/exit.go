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
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/cmd/mailroom/internal/datadir"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1  // also: cancelled
	exitUsage       = 2  // or invalid input
	exitWaiting     = 3  // for a decision
	exitServer      = 4  // none, or not allowed
	exitRestart     = 75 // of a server: start it again
	exitConfig      = 78 // of a server: mend its configuration first
	exitInterrupted = 130
)

// exitError is an error that knows its exit code. hint, if any, says what to do.
type exitError struct {
	code int
	hint string
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exitErrorf(code int, hint, format string, args ...any) error {
	return &exitError{code: code, hint: hint, err: fmt.Errorf(format, args...)}
}

// unsuccessfulError ends a command whose run did not complete. What there is to say
// has been said by then.
type unsuccessfulError struct{ status mailroom.Status }

func (e *unsuccessfulError) Error() string { return "the run is " + string(e.status) }

// usageError is a command line that was not understood.
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

// reportError prints err and returns its exit code.
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

// explainServerError turns the refusal of a server into what a person can act on.
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
		code, hint = exitServer, "MAILROOM_TOKEN, or --data with the server's data folder, gives the token"
	case mailroom.CodeForbidden, mailroom.CodeQuotaExceeded:
		code = exitServer
	case mailroom.CodeUnavailable:
		code = exitServer
		if errors.Is(e, syscall.ECONNREFUSED) {
			message, hint = "no server at "+m.url, "start one with `"+m.commandLine("serve")+"`"
		} else if _, ok := errors.AsType[*tls.CertificateVerificationError](e); ok && m.data == "" {
			hint = "if it is the right server, MAILROOM_CA names a file with its certificate or its authority's"
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
