package mailroom

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code classifies an [Error]. Each protocol maps the codes once, in both directions.
type Code string

const (
	CodeInvalid         Code = "invalid"         // the input is not valid
	CodeUnserved        Code = "unserved"        // no server or worker serves the agent
	CodeUnauthenticated Code = "unauthenticated" // credentials are missing or wrong
	CodeForbidden       Code = "forbidden"       // the caller lacks the permission
	CodeQuotaExceeded   Code = "quota"           // the owner's quota is used up
	CodeNotFound        Code = "not_found"       // it does not exist, or the caller may not see it
	CodeConflict        Code = "conflict"        // contradicts stored state
	CodeBusy            Code = "busy"            // mode reject on a busy thread
	CodeLeaseLost       Code = "lease_lost"      // the claim was taken away; stop working
	CodeGone            Code = "gone"            // it has expired
	CodeTooLarge        Code = "too_large"       // exceeds a size limit
	CodeRateLimited     Code = "rate_limited"    // retry after RetryAfter
	CodeInternal        Code = "internal"        // a fault of the server
	CodeUnavailable     Code = "unavailable"     // the outcome is unknown; repeat after RetryAfter
)

// Error is a refusal with a code. Message is written for the caller: it names the value and what to
// do, and never contains a secret.
type Error struct {
	Code       Code
	Message    string
	Fields     []Field
	RetryAfter time.Duration // with CodeRateLimited and CodeUnavailable
	Cause      error         // for logs only, never shown to a caller
}

// Field describes one invalid part of an input. Location is a path such as "body.priority". Value
// is the given value; shorten it before showing it.
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

// Errorf returns an Error. An operand of %w becomes its cause, as in [fmt.Errorf]. A cause at the
// end, after a colon, is left out of Message: internal details are not for the caller.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
	if e.Cause != nil {
		e.Message = strings.TrimSuffix(e.Message, ": "+e.Cause.Error())
	}
	return e
}

// CodeOf returns the code of the first Error in err's tree, CodeInternal for any other error, and
// "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
