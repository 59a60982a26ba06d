package mailroom_test

import (
	"errors"
	"fmt"
	"testing"

	"mailroom"
)

func TestACauseIsForLogsAndNotForTheCaller(t *testing.T) {
	inside := errors.New("disk sda1 is full")
	err := mailroom.Errorf(mailroom.CodeUnavailable, "submit failed: %w", inside)
	if got, want := err.Message, "submit failed"; got != want {
		t.Errorf("got message %q, want %q", got, want)
	}
	if got, want := err.Error(), "submit failed: disk sda1 is full"; got != want {
		t.Errorf("got error %q, want %q", got, want)
	}
	if !errors.Is(err, inside) || mailroom.CodeOf(fmt.Errorf("send: %w", err)) != mailroom.CodeUnavailable {
		t.Errorf("error %v lacks its cause or its code", err)
	}
}
