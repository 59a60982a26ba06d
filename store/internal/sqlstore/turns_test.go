package sqlstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"mailroom/store"
)

func TestCloseWaitsForRunningCallsAndRefusesThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		if err := errors.Join(turns.Write(t.Context()), turns.View(t.Context())); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 3)
		go func() { waiting <- turns.Write(t.Context()) }()
		go func() { waiting <- turns.View(t.Context()) }()
		go func() {
			if turns.WaitWrite() {
				waiting <- errors.New("got a turn of closed turns")
			} else {
				waiting <- store.ErrClosed
			}
		}()
		synctest.Wait()
		ended := false
		go turns.Close(func() {
			turns.LastWrite()
			turns.LastViews()
			ended = true
		})
		synctest.Wait()
		for range cap(waiting) {
			if err := <-waiting; !errors.Is(err, store.ErrClosed) {
				t.Errorf("a call that waited got %v, want %v", err, store.ErrClosed)
			}
		}
		if ended {
			t.Error("Close did not wait for the calls that run")
		}
		turns.EndWrite()
		turns.EndView()
		synctest.Wait()
		if !ended {
			t.Error("Close did not end after the calls")
		}
		for _, err := range []error{turns.Write(t.Context()), turns.View(t.Context())} {
			if !errors.Is(err, store.ErrClosed) {
				t.Errorf("a call after Close got %v, want %v", err, store.ErrClosed)
			}
		}
	})
}

func TestACallWhoseContextEndsGetsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		if err := turns.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
		cause := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		waiting := make(chan error, 1)
		go func() { waiting <- turns.Write(ctx) }()
		synctest.Wait()
		cancel(cause)
		if err := <-waiting; !errors.Is(err, cause) {
			t.Errorf("got %v, want %v", err, cause)
		}
		if turns.TryWrite() {
			t.Error("got a turn that another call has")
		}
		turns.EndWrite()
		if err := turns.Write(ctx); !errors.Is(err, cause) {
			t.Errorf("with an ended context got %v, want %v", err, cause)
		}
		if !turns.TryWrite() {
			t.Error("got no turn though no call has it")
		}
	})
}
