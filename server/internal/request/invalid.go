package request

import (
	"errors"
	"net/http"
	"slices"

	"mailroom"
)

// Locate prefixes the field locations of err. The rules name fields without knowing which part
// of a request they came from.
func Locate(prefix string, err error) error {
	e, ok := errors.AsType[*mailroom.Error](err)
	if !ok || len(e.Fields) == 0 {
		return err
	}
	located := *e
	located.Fields = slices.Clone(e.Fields)
	for i := range located.Fields {
		located.Fields[i].Location = prefix + located.Fields[i].Location
	}
	return &located
}

// TooLarge refuses a field that exceeds its limit.
func TooLarge(location, message string) error {
	return &mailroom.Error{
		Code: mailroom.CodeTooLarge, Message: location + ": " + message,
		Fields: []mailroom.Field{{Location: location, Message: message}},
	}
}

// Invalid refuses a field, at a location such as "body.agent" or "query.cursor".
func Invalid(location, message string, value any) error {
	return &mailroom.Error{
		Code: mailroom.CodeInvalid, Message: location + ": " + message,
		Fields: []mailroom.Field{{Location: location, Message: message, Value: value}},
	}
}

// Unserved refuses an agent that nothing serves. The request may succeed once a worker serves it.
func Unserved(location, message, agent string) error {
	return &mailroom.Error{
		Code: mailroom.CodeUnserved, Message: location + ": " + message,
		Fields: []mailroom.Field{{Location: location, Message: message, Value: agent}},
	}
}

// Truncate cuts caller-supplied text to 100 characters, for use in messages.
func Truncate(s string) string {
	const most = 100
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// WithStatus makes the response to err have another status than its code's own.
func WithStatus(status int, err error) error { return &statusError{status: status, err: err} }

// Malformed is a 400 refusal of a part of a request that cannot be parsed.
func Malformed(location, message string) error {
	return WithStatus(http.StatusBadRequest, &mailroom.Error{
		Code: mailroom.CodeInvalid, Message: location + " " + message,
		Fields: []mailroom.Field{{Location: location, Message: message}},
	})
}

type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// StatusOf returns the status that WithStatus set.
func StatusOf(err error) (int, bool) {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status, true
	}
	return 0, false
}
