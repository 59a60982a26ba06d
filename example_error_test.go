package mailroom_test

import (
	"errors"
	"fmt"
	"io"
	"time"

	"mailroom"
)

// A refusal has a code for programs and a message for people. The cause is for logs: it stays out of the
// message, so that no caller sees internal details.
func ExampleErrorf() {
	err := mailroom.Errorf(mailroom.CodeUnavailable, "the store did not answer; try again: %w", io.ErrUnexpectedEOF)

	fmt.Println("for the caller:", err.Message)
	fmt.Println("for the log:   ", err)
	fmt.Println(errors.Is(err, io.ErrUnexpectedEOF))
	// Output:
	// for the caller: the store did not answer; try again
	// for the log:    the store did not answer; try again: unexpected EOF
	// true
}

// Programs decide by the code, which is the same inside the server and in the Go client. A code survives
// wrapping, and an error that has none is a fault of the server.
func ExampleCodeOf() {
	for _, err := range []error{
		nil,
		fmt.Errorf("submit: %w", mailroom.Errorf(mailroom.CodeBusy, "thread t has a current run")),
		mailroom.Errorf(mailroom.CodeUnavailable, "the connection was lost"),
		io.EOF,
	} {
		switch code := mailroom.CodeOf(err); code {
		case "":
			fmt.Println("done")
		case mailroom.CodeUnavailable: // it may have been done: the key makes a repeat safe
			fmt.Println("repeat with the same key")
		default:
			fmt.Println("refused:", code)
		}
	}
	// Output:
	// done
	// refused: busy
	// repeat with the same key
	// refused: internal
}

// The class of an agent's error decides whether its run is retried. An error without a class is transient.
func ExampleFailure() {
	limit := &mailroom.Failure{
		Class: mailroom.ClassUnavailable, RetryAfter: time.Minute, Err: errors.New("rate limit exceeded"),
	}
	for _, err := range []error{
		errors.New("unexpected end of the answer"),
		fmt.Errorf("model: %w", limit),
		&mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("the file is no image")},
	} {
		f := mailroom.AsFailure(err)
		fmt.Println(f.Class, f.RetryAfter)
	}
	// Output:
	// transient 0s
	// unavailable 1m0s
	// permanent 0s
}
