package mailroom

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code says what kind of refusal an [Error] is. Every edge maps the codes once,
// in both directions.
type Code string

const (
	CodeInvalid         Code = "invalid"         // the input breaks a rule
	CodeUnauthenticated Code = "unauthenticated" // no identity, or a wrong one
	CodeForbidden       Code = "forbidden"       // known, but not allowed to
	CodeQuotaExceeded   Code = "quota"           // its owner has all it may have
	CodeNotFound        Code = "not_found"       // no such thing, or not yours
	CodeConflict        Code = "conflict"        // contradicts what is already written
	CodeBusy            Code = "busy"            // mode reject met a busy thread
	CodeLeaseLost       Code = "lease_lost"      // the claim was taken away: stop working
	CodeGone            Code = "gone"            // it was there and has expired
	CodeTooLarge        Code = "too_large"       // over a size limit
	CodeRateLimited     Code = "rate_limited"    // later, see RetryAfter
	CodeInternal        Code = "internal"        // our fault
	CodeUnavailable     Code = "unavailable"     // outcome unknown: repeat it, see RetryAfter
)

// Error is a refusal with a code. Message is for the caller: it names the value
// and what to do, and never holds a secret.
type Error struct {
	Code       Code
	Message    string
	Fields     []Field
	RetryAfter time.Duration // for RateLimited and Unavailable
	Cause      error         // for logs; never shown to a caller
}

// Field names one wrong part of an input. Location is a path such as
// "body.priority"; Value is what was given, to be cut before it is shown.
type Field struct {
	Location string
	Message  string
	Value    any
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an Error. An operand of %w becomes its cause as in [fmt.Errorf];
// one at the end, after a colon, stays out of Message, because what went wrong
// inside is not for the caller.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
	if e.Cause != nil {
		e.Message = strings.TrimSuffix(e.Message, ": "+e.Cause.Error())
	}
	return e
}

// CodeOf returns the code of the first Error in err's tree, Internal for any
// other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

func tooLarge(location, message string, value any) *Error {
	e := invalid(location, message, value)
	e.Code = CodeTooLarge
	return e
}

func invalid(location, message string, value any) *Error {
	return &Error{
		Code:    CodeInvalid,
		Message: fmt.Sprintf("%s: %s", location, message),
		Fields:  []Field{{Location: location, Message: message, Value: value}},
	}
}
