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
	"mailroom/cmd/mailroom/internal/folder"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1  // also: cancelled
	exitUsage       = 2  // or invalid input
	exitWaits       = 3  // for a decision
	exitServer      = 4  // none, or not allowed
	exitAgain       = 75 // of a server: start it again
	exitMend        = 78 // of a server: mend its configuration first
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

func refusal(code int, hint, format string, args ...any) error {
	return &exitError{code: code, hint: hint, err: fmt.Errorf(format, args...)}
}

// settledError ends a command whose run did not complete. What there is to say
// has been said by then.
type settledError struct{ status mailroom.Status }

func (e *settledError) Error() string { return "the run is " + string(e.status) }

// usageError is a command line that was not understood.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }

func noServer(err error, dir folder.Folder, start string) error {
	hint := "start one with `" + start + "`"
	if errors.Is(err, fs.ErrNotExist) {
		return refusal(exitServer, hint, "no server on %s", dir)
	}
	return refusal(exitServer, hint, "%w", err)
}

// refuse prints err and returns its exit code.
func (m *Main) refuse(ctx context.Context, err error) int {
	code, hint := exitFailed, ""
	message := err.Error()
	if e, ok := errors.AsType[*usageError](err); ok {
		code, hint = exitUsage, "see `"+e.command+" --help`"
	} else if e, ok := errors.AsType[*exitError](err); ok {
		code, hint = e.code, e.hint
	} else if _, ok := errors.AsType[*settledError](err); ok {
		return exitFailed
	} else if _, ok := errors.AsType[*findingsError](err); ok {
		return exitFailed
	} else if _, ok := errors.AsType[*waitsError](err); ok {
		return exitWaits
	} else if _, ok := errors.AsType[*config.Error](err); ok {
		code = exitUsage
	} else if ctx.Err() != nil {
		return exitInterrupted
	} else if e, ok := errors.AsType[*mailroom.Error](err); ok {
		code, message, hint = m.explain(e)
	}
	m.printRefusal(message, hint)
	return code
}

// explain turns the refusal of a server into what a person can act on.
func (m *Main) explain(e *mailroom.Error) (code int, message, hint string) {
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
			message, hint = "no server at "+m.url, "start one with `"+m.again("serve")+"`"
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
