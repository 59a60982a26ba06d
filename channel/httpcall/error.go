package httpcall

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"mailroom"
	"mailroom/channel/chat"
)

// Refusal is an error response of the platform.
type Refusal struct {
	Op         string
	Platform   string // such as "Slack"
	Status     int    // HTTP status; 0 if Code alone says what failed
	Code       string // the platform's error code; "" if none
	Text       string // redacted; "" if none
	RetryAfter time.Duration
	Everywhere bool // the pause applies to all calls
	// Detail is a field that only one platform has; its adapter documents it.
	Detail string
}

func (e *Refusal) Error() string {
	answer := e.Code
	switch {
	case e.Status != 0 && e.Code != "":
		answer = fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Text)
	case e.Status != 0:
		answer = fmt.Sprintf("%d %s", e.Status, e.Text)
	case e.Text != "":
		answer += " (" + e.Text + ")"
	}
	return e.Op + ": " + e.Platform + " answered " + answer
}

// Pause implements [Pauser].
func (e *Refusal) Pause() (time.Duration, bool) { return e.RetryAfter, e.Everywhere }

// TransportError is a call without a valid response of the platform.
type TransportError struct {
	Op         string
	Reason     string // redacted
	MaybeSent  bool   // the platform may have received the request
	RetryAfter time.Duration
	Everywhere bool  // the pause applies to all calls
	Cause      error // only a context error: other errors can contain the URL
}

func (e *TransportError) Error() string { return e.Op + ": " + e.Reason }

func (e *TransportError) Unwrap() error { return e.Cause }

// Pause implements [Pauser].
func (e *TransportError) Pause() (time.Duration, bool) { return e.RetryAfter, e.Everywhere }

// Pauser is an error that may ask for a pause.
type Pauser interface {
	error
	// Pause returns the pause, 0 for none, and whether it applies to all calls.
	Pause() (after time.Duration, everywhere bool)
}

// PauseOf returns the pause that an error asks for, and whether it applies to all calls.
func PauseOf(err error) (after time.Duration, everywhere bool) {
	if e, ok := errors.AsType[Pauser](err); ok {
		return e.Pause()
	}
	return 0, false
}

// Unavailable marks an error as temporary, with the pause that it asks for.
func Unavailable(err error) error {
	after, _ := PauseOf(err)
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after, Err: err}
}

// UnavailableForSend marks an error like [Unavailable], and with [chat.ErrEverywhere] if its pause
// applies to all calls.
func UnavailableForSend(err error) error {
	if _, everywhere := PauseOf(err); everywhere {
		return fmt.Errorf("%w: %w", chat.ErrEverywhere, Unavailable(err))
	}
	return Unavailable(err)
}

// Permanent marks an error that repeating the call cannot change.
func Permanent(err error) error {
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
}

// Class says what a refusal means for a message.
type Class int

const (
	// ClassPermanent: this call can never succeed.
	ClassPermanent Class = iota
	// ClassGone: the room no longer accepts anything.
	ClassGone
	// ClassUnavailable: nothing was done; a later call may succeed.
	ClassUnavailable
	// ClassUnknown: the platform failed and may have carried out the call.
	ClassUnknown
)

// SendError converts the error of a call that writes to the platform into the errors that
// [chat.Platform] documents. classOf returns the class of a refusal on this platform.
func SendError(err error, classOf func(*Refusal) Class) error {
	if err == nil {
		return nil
	}
	class := ClassUnknown
	if e, ok := errors.AsType[*Refusal](err); ok {
		class = classOf(e)
	} else if e, ok := errors.AsType[*TransportError](err); ok && !e.MaybeSent {
		class = ClassUnavailable
	}
	switch class {
	case ClassPermanent:
		return Permanent(err)
	case ClassGone:
		return Permanent(fmt.Errorf("%w: %w", chat.ErrGone, err))
	case ClassUnavailable:
		return UnavailableForSend(err)
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, Unavailable(err))
}

// maxRetryAfter bounds every pause that a platform asks for.
const maxRetryAfter = 24 * time.Hour

// Seconds converts a pause in seconds, bounded to 0 … 24 hours.
func Seconds(n float64) time.Duration {
	if !(n > 0) { // NaN too
		return 0
	}
	return time.Duration(math.Round(min(n, maxRetryAfter.Seconds()) * float64(time.Second)))
}

// ParseRetryAfter parses a Retry-After header: seconds, which some platforms send with a fraction,
// or a date (RFC 9110, section 10.2.3). It returns 0 for anything else.
func ParseRetryAfter(header string, now time.Time) time.Duration {
	if n, err := strconv.ParseFloat(header, 64); err == nil {
		return Seconds(n)
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
