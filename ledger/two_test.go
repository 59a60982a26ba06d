package ledger_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// handle opens another handle on the file, as another process does.
func handle(t *testing.T, path string) store.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// two starts two ledgers with separate handles on one file.
func two(t *testing.T) (path string, both [2]*fixture) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "mail.db")
	for i := range both {
		both[i] = open(t, handle(t, path), ledger.Options{})
	}
	return path, both
}

// retryBusy repeats an operation while its outcome is unknown.
func retryBusy[T any](t *testing.T, f func() (T, error)) T {
	t.Helper()
	for {
		v, err := f()
		if mailroom.CodeOf(err) == mailroom.CodeUnavailable {
			continue
		}
		if err != nil {
			t.Error(err)
		}
		return v
	}
}

func TestTwoLedgersOverOneFileAcceptAKeyOnce(t *testing.T) {
	path, both := two(t)
	in := text("t", "hello")
	in.Key = "k"
	outs := make([]store.Submitted, 64)
	concurrently(64, func(i int) {
		outs[i] = retryBusy(t, func() (store.Submitted, error) { return both[i%2].Submit(t.Context(), in) })
	})
	for _, out := range outs {
		wantEqual(t, "answer", []any{out.Message, out.Run, out.Seq}, []any{outs[0].Message, outs[0].Run, outs[0].Seq})
	}
	for _, d := range both {
		wantEqual(t, "log", d.kinds("t"), "message, run.queued")
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, handle(t, path), ledger.Options{}).submit(in)
	wantEqual(t, "after a restart", []any{again.Run, again.Disposition}, []any{outs[0].Run, store.DispositionDuplicate})
}

func TestTwoLedgersOverOneFileGiveConsecutivePlaces(t *testing.T) {
	_, both := two(t)
	places := make([]int64, 32)
	concurrently(32, func(i int) {
		in := text("t", "hello")
		in.Key = fmt.Sprint("k", i) // an unknown outcome is repeated
		places[i] = retryBusy(t, func() (store.Submitted, error) { return both[i%2].Submit(t.Context(), in) }).Place
	})
	slices.Sort(places)
	for i, place := range places {
		wantEqual(t, "place", place, int64(i+1))
	}
}

func TestTwoLedgersOverOneFileClaimARunOnce(t *testing.T) {
	_, both := two(t)
	const runs = 20
	for i := range runs {
		both[0].submit(text(fmt.Sprint("t", i), "hello"))
	}
	var mu sync.Mutex
	claims := map[string]int{}
	concurrently(8, func(i int) {
		d, worker := both[i%2], fmt.Sprint("w", i)
		retryBusy(t, func() (any, error) { return d.Register(t.Context(), store.Worker{ID: worker}) })
		for round := int64(1); ; round++ {
			work := retryBusy(t, func() ([]thread.ClaimedRun, error) {
				return d.Claim(t.Context(), thread.ClaimRequest{Worker: worker, Round: round, Slots: 3,
					Agents: map[string]int{"echo": 3}})
			})
			for _, w := range work {
				mu.Lock()
				claims[w.Run.ID]++
				mu.Unlock()
				s := complete(w.Claim, "ok")
				s.Number = 1
				retryBusy(t, func() (*mailroom.Run, error) { return d.Settle(t.Context(), s) })
			}
			if len(work) == 0 {
				return
			}
		}
	})
	wantEqual(t, "runs", len(claims), runs)
	for run, n := range claims {
		wantEqual(t, "claims of run "+run, n, 1)
	}
}

func TestALedgerRevokesClaimsOfAWorkerOfAnother(t *testing.T) {
	_, both := two(t)
	both[0].register("a")
	both[1].register("b")
	both[0].submit(text("t", "hello"))
	c := both[0].claimOne("a").Claim
	wantEqual(t, "claims by the other", len(both[1].claim("b", 1)), 0)
	both[1].expireWorker("a")
	_, err := both[0].Settle(t.Context(), thread.Settle{Claim: c, Number: 1, Outcome: thread.OutcomeComplete})
	wantCode(t, err, mailroom.CodeLeaseLost)
	both[1].settle(complete(both[1].claimOne("b").Claim, "ok"))
}
