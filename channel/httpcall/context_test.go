package httpcall_test

import (
	"context"
	"errors"
	"testing"

	"mailroom/channel/httpcall"
)

func TestABoundContextEndsWithEither(t *testing.T) {
	lost := errors.New("connection lost")
	for name, want := range map[string]error{"connection": lost, "caller": context.Canceled, "release": context.Canceled} {
		caller, cancel := context.WithCancel(t.Context())
		connection, end := context.WithCancelCause(t.Context())
		bound, release := httpcall.BindContext(caller, connection)
		switch name {
		case "connection":
			end(lost)
		case "caller":
			cancel()
		case "release":
			release()
		}
		<-bound.Done()
		if got := context.Cause(bound); !errors.Is(got, want) {
			t.Errorf("%s: the cause is %v, want %v", name, got, want)
		}
		release()
		cancel()
		end(nil)
	}
}
