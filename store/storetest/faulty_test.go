package storetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"mailroom"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
)

func writeThread(tx store.Tx) error {
	return tx.Write(&store.Changes{Threads: []*mailroom.Thread{{ID: "t"}}})
}

func isWritten(t *testing.T, s store.Store) bool {
	t.Helper()
	found := false
	err := s.View(t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{})
		found = len(rows) > 0
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestFaultDecidesWhetherAnUpdateHappensAndWhatIsReported(t *testing.T) {
	full := errors.New("full")
	refused := errors.New("refused")
	for _, c := range []struct {
		name    string
		fault   storetest.Fault
		f       func(store.Tx) error
		err     error
		code    mailroom.Code
		written bool
	}{
		{"none", storetest.Fault{}, writeThread, nil, "", true},
		{"none, f's error", storetest.Fault{}, func(store.Tx) error { return refused }, refused, mailroom.CodeInternal, false},
		{"before", storetest.Fault{Kind: storetest.FailBefore}, writeThread, nil, mailroom.CodeUnavailable, false},
		{"before, with an error", storetest.Fault{Kind: storetest.FailBefore, Err: full}, writeThread, full, mailroom.CodeInternal, false},
		{"after", storetest.Fault{Kind: storetest.FailAfter}, writeThread, nil, mailroom.CodeUnavailable, true},
		{"after, with an error", storetest.Fault{Kind: storetest.FailAfter, Err: full}, writeThread, full, mailroom.CodeInternal, true},
		{"after, f's error", storetest.Fault{Kind: storetest.FailAfter, Err: full},
			func(store.Tx) error { return refused }, refused, mailroom.CodeInternal, false},
		{"cancelled", storetest.Fault{Kind: storetest.Cancel}, writeThread, context.Canceled, mailroom.CodeUnavailable, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := storetest.Faulty(memory.New(), func(int) storetest.Fault { return c.fault })
			err := s.Update(t.Context(), c.f)
			if c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("got error %v, want %v", err, c.err)
			}
			if got := mailroom.CodeOf(err); got != c.code {
				t.Errorf("got error %v of code %q, want code %q", err, got, c.code)
			}
			if got := isWritten(t, s); got != c.written {
				t.Errorf("written: got %v, want %v", got, c.written)
			}
		})
	}
}

func TestAConflictDiscardsTheFirstCallAndCallsAgain(t *testing.T) {
	for name, kind := range map[string]storetest.FaultKind{"at the end": storetest.Conflict,
		"early": storetest.EarlyConflict} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Faulty(memory.New(), func(int) storetest.Fault { return storetest.Fault{Kind: kind} })
			calls := 0
			err := s.Update(t.Context(), func(tx store.Tx) error {
				calls++
				rows, err := tx.Load(store.Need{Threads: []string{"t"}})
				if err != nil {
					return err
				}
				if got := rows.Threads[0].Key; got != 0 {
					t.Errorf("call %d: got a thread with key %d, want none", calls, got)
				}
				return writeThread(tx)
			})
			if err != nil || calls != 2 || !isWritten(t, s) {
				t.Errorf("got error %v after %d calls, written %v; want none after 2 calls, written", err, calls, isWritten(t, s))
			}
		})
	}
}

func TestFaultPlanCountsUpdatesFromOne(t *testing.T) {
	s := storetest.Faulty(memory.New(), func(n int) storetest.Fault {
		if n == 2 {
			return storetest.Fault{Kind: storetest.FailBefore}
		}
		return storetest.Fault{}
	})
	for n := 1; n <= 3; n++ {
		err := s.Update(t.Context(), func(store.Tx) error { return nil })
		if failed := err != nil; failed != (n == 2) {
			t.Errorf("update %d: got error %v", n, err)
		}
	}
}

func TestGateHoldsAnUpdateUntilItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := storetest.Faulty(memory.New(), func(int) storetest.Fault { return storetest.Fault{Gate: gate} })
		done := make(chan error, 1)
		go func() { done <- s.Update(t.Context(), writeThread) }()
		synctest.Wait()
		if isWritten(t, s) {
			t.Error("written before the gate was opened")
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Update(ctx, writeThread); mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			t.Errorf("an ended context before the gate: got error %v, want one of code unavailable", err)
		}

		close(gate)
		if err := <-done; err != nil {
			t.Errorf("got error %v, want none", err)
		}
		if !isWritten(t, s) {
			t.Error("not written after the gate was opened")
		}
	})
}
