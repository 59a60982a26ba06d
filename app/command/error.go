package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/internal/lazyregexp"
)

// Exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1  // also: cancelled
	ExitUsage       = 2  // or invalid input
	ExitWaiting     = 3  // the run waits for a decision
	ExitServer      = 4  // no server answers, or it does not authorize the call
	ExitRestart     = 75 // server: restart it (EX_TEMPFAIL)
	ExitConfig      = 78 // server: fix the configuration first (EX_CONFIG)
	ExitInterrupted = 130
)

// Error is an error with an exit code.
type Error struct {
	Code int
	Hint string // says what to do; "" without a hint
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

// PrintedError ends a command with an exit code. The command has already printed the reason, so nothing more is
// printed.
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
	c.Infof("mailroom: %s", c.Runnable(message+hint))
	return code
}

// explainServerError turns an error of the server into an exit code, a message and a hint.
func (c *Console) explainServerError(e *mailroom.Error) (code int, message, hint string) {
	message = e.Error()
	switch e.Code {
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeUnserved:
		code = ExitUsage
		for _, f := range e.Fields {
			if message = nameField(message, f); !strings.Contains(message, f.Message) {
				hint += "\n  " + fieldText(f)
			}
		}
	case mailroom.CodeUnauthenticated:
		code, hint = ExitServer, "set MAILROOM_TOKEN, or name the server's data folder with --data"
	case mailroom.CodeForbidden, mailroom.CodeQuotaExceeded:
		code = ExitServer
	case mailroom.CodeUnavailable:
		code = ExitServer
		if plain, todo := c.explainNetworkError(e); plain != "" {
			message, hint = plain, todo
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

// nameField replaces the description of a field in a message by its [fieldText]. The message may name the field by
// its path or, if a package below the server wrote the message, by the end of the path.
func nameField(message string, f mailroom.Field) string {
	for path, ok := f.Location, true; ok; _, path, ok = strings.Cut(path, ".") {
		if before, after, found := strings.Cut(message, path+": "+f.Message); found {
			return before + fieldText(f) + after
		}
	}
	return message
}

// predicate matches a message that continues a sentence about the field.
var predicate = lazyregexp.New(`^(is|are|must|has|have|need|needs|name|names|require|requires|goes|cannot|` +
	`exceeds|does|did|differs|ends|ended)\b`)

// maxFieldValue is the length, in characters, of the longest value that an error repeats.
const maxFieldValue = 50

// fieldText formats a field error for a user of a command: a sentence with the field's name instead of
// its path in the JSON of the request, such as `mode "x" must be queue or steer`.
func fieldText(f mailroom.Field) string {
	name, _, _ := strings.Cut(f.Location[strings.LastIndexByte(f.Location, '.')+1:], "[")
	if name == "" || name == "body" {
		name = "the request"
	}
	value, _ := f.Value.(string)
	// Only a value that is short and no JSON is repeated.
	shown := value != "" && utf8.RuneCountInString(value) <= maxFieldValue && !strings.ContainsAny(value[:1], "[{")
	switch {
	case predicate().MatchString(f.Message) && shown:
		return fmt.Sprintf("%s %q %s", name, value, f.Message)
	case predicate().MatchString(f.Message):
		return name + " " + f.Message
	case strings.Contains(f.Message, name):
		return f.Message
	}
	return name + ": " + f.Message
}
