package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
)

func updateCases() []testCase {
	return []testCase{
		{"returns f's error as it is and writes nothing", failedUpdateWritesNothing},
		{"a panic of f writes nothing and leaves the store usable", panicWritesNothing},
		{"a refused Write keeps the transaction from committing", refusedWriteIsNotCommitted},
		{"a context that has ended writes nothing", endedContextWritesNothing},
		{"waiting for another Update ends with the context", waitEndsWithContext},
		{"one runs at a time", oneUpdateAtATime},
		{"sees its own writes", updateSeesItsWrites},
		{"has one time, in UTC and whole microseconds", nowIsOneTime},
		{"a closed store is unavailable", closedStoreIsUnavailable},
	}
}

func failedUpdateWritesNothing(t *testing.T, s *handle) {
	s.write(fullChanges())
	before := s.everything()
	refused := errors.New("refused")
	err := s.Update(t.Context(), func(tx store.Tx) error {
		_, rows, err := Lock(tx, nil, []string{"t", "made"})
		must(t, err)
		rows[0].Agent, rows[1].Agent = "changed", "made"
		must(t, tx.Write(&store.Changes{
			Threads:         rows,
			Runs:            []*mailroom.Run{run("r2", "t")},
			Entries:         [][]mailroom.Entry{entries("t", 3, "r2", entry.KindMessage)},
			Keys:            []store.SubmitKey{key("t", "k2")},
			Workers:         []*store.Worker{{ID: "w2"}},
			Tickets:         []*mailroom.Ticket{ticket("q2", "r2", "t")},
			Tokens:          []*auth.Token{{Name: "bob"}},
			Definitions:     []store.Definition{{Agent: "a", Version: "1"}},
			DropPartials:    []string{"r"},
			DropWorkers:     []string{"w"},
			DropThreads:     []string{"bare"},
			DropEntries:     []store.Prefix{{Thread: "t", Seq: 2}},
			DropDefinitions: before.Kept,
			DropTokens:      []string{"ann"},
			DropPauses:      []string{before.Pauses[0].Agent},
			DropSummaries:   []store.SummariesBefore{{Step: store.StepMinute, At: base().Add(time.Hour)}},
		}))
		return refused
	})
	if err != refused {
		t.Errorf("got error %v, want the one that f returned", err)
	}
	wantSame(t, "rows after a failed update", s.everything(), before)
	s.view(func(r store.Reader) {
		if found := get(r.Keys(store.KeyQuery{Thread: "t", Keys: []string{"k", "k2"}}))(t); len(found) != 1 {
			t.Errorf("keys after a failed update: got %v, want k alone", found)
		}
	})
}

func panicWritesNothing(t *testing.T, s *handle) {
	func() {
		defer func() {
			if got := recover(); got != "bug" {
				t.Errorf("recovered %v, want the panic of f", got)
			}
		}()
		err := s.Update(t.Context(), func(tx store.Tx) error {
			must(t, tx.Write(fullChanges()))
			panic("bug")
		})
		t.Errorf("update returned %v, want the panic of f", err)
	}()
	wantSame(t, "threads after a panic", s.everything().Threads, []*mailroom.Thread(nil))
	s.write(fullChanges())
}

func refusedWriteIsNotCommitted(t *testing.T, s *handle) {
	s.write(fullChanges())
	before := s.everything()
	err := s.Update(t.Context(), func(tx store.Tx) error {
		must(t, tx.Write(&store.Changes{Threads: []*mailroom.Thread{thread("fine")}}))
		_ = tx.Write(&store.Changes{Threads: []*mailroom.Thread{thread("t")}}) // Update returns the error
		return nil
	})
	wantCode(t, err, mailroom.CodeInternal)
	wantSame(t, "rows after a refused write", s.everything(), before)
}

func endedContextWritesNothing(t *testing.T, s *handle) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Update(ctx, func(tx store.Tx) error { return tx.Write(fullChanges()) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want one that wraps context.Canceled", err)
	}
	wantSame(t, "threads", s.everything().Threads, []*mailroom.Thread(nil))
	if err := s.View(ctx, func(store.Reader) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("view: got error %v, want one that wraps context.Canceled", err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	err = s.Update(ctx, func(tx store.Tx) error {
		cancel()
		return tx.Write(fullChanges())
	})
	written := len(s.everything().Threads) > 0
	if err == nil && !written {
		t.Error("an update that was cancelled inside returned nil, and nothing was written")
	}
	if err != nil {
		wantCode(t, err, mailroom.CodeUnavailable)
	}
}

func waitEndsWithContext(t *testing.T, s *handle) {
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	s.update(func(store.Tx) {
		go func() {
			waited <- s.Update(ctx, func(tx store.Tx) error { return tx.Write(fullChanges()) })
		}()
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want one that wraps context.Canceled", err)
		}
	})
	wantSame(t, "threads", s.everything().Threads, []*mailroom.Thread(nil))
}

func oneUpdateAtATime(t *testing.T, s *handle) {
	const writers, each = 4, 5
	inside, total := 0, 0 // without a lock: the race detector watches too
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				err := s.Update(t.Context(), func(tx store.Tx) error {
					if inside++; inside != 1 {
						t.Errorf("got %d updates at a time, want 1", inside)
					}
					_, rows, err := Lock(tx, nil, []string{"t"})
					if err != nil {
						return err
					}
					rows[0].LastSeq++
					total++
					inside--
					return tx.Write(&store.Changes{Threads: rows})
				})
				if err != nil {
					t.Errorf("update: %v", err)
				}
			}
		})
	}
	all.Wait()
	rows := s.everything().Threads
	if len(rows) != 1 || rows[0].LastSeq != writers*each || total != writers*each {
		t.Errorf("got %d updates and rows %v, want one row with %d", total, rows, writers*each)
	}
}

func updateSeesItsWrites(t *testing.T, s *handle) {
	s.write(&store.Changes{Threads: []*mailroom.Thread{thread("old")}})
	s.update(func(tx store.Tx) {
		must(t, tx.Write(fullChanges()))
		inside := read(t, tx)
		if got, want := threadIDs(inside.Threads), []string{"bare", "t", "old"}; !slices.Equal(got, want) {
			t.Errorf("threads: got %v, want %v", got, want)
		}
		if got := len(inside.Entries["t"]); got != 2 {
			t.Errorf("entries: got %d, want 2", got)
		}
		if got := len(inside.Agents); got != 1 {
			t.Errorf("agents with due threads: got %d, want 1", got)
		}
		_, rows, err := Lock(tx, nil, []string{"t"})
		must(t, err)
		rows[0].Due = mailroom.Due{}
		must(t, tx.Write(&store.Changes{
			Threads: rows,
			Entries: [][]mailroom.Entry{entries("t", 3, "r", entry.KindStarted)},
		}))
		if got := dueAgents(t, tx); len(got) != 0 {
			t.Errorf("agents with due threads after the second write: got %v, want none", got)
		}
		if got, want := seqs(get(tx.Entries(store.EntryQuery{Thread: "t"}))(t)), []int64{1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("entries after the second write: got %v, want %v", got, want)
		}
	})
}

func nowIsOneTime(t *testing.T, s *handle) {
	s.update(func(tx store.Tx) {
		now := tx.Now()
		if now.Location() != time.UTC || !now.Equal(now.Truncate(time.Microsecond)) || now.IsZero() {
			t.Errorf("got %v, want a time in UTC and whole microseconds", now)
		}
		must(t, tx.Write(fullChanges()))
		if again := tx.Now(); again != now {
			t.Errorf("got %v and then %v, want one time", now, again)
		}
	})
}

func closedStoreIsUnavailable(t *testing.T, s *handle) {
	s.close()
	err := s.Update(t.Context(), func(store.Tx) error { return nil })
	wantCode(t, err, mailroom.CodeUnavailable)
	err = s.View(t.Context(), func(store.Reader) error { return nil })
	wantCode(t, err, mailroom.CodeUnavailable)
}
