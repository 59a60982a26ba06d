package ledger_test

import (
	"context"
	"testing"
	"testing/synctest"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// countingDrops checks how many entries an Update drops. While broken is set, Updates that drop fail.
type countingDrops struct {
	store.Store
	t      *testing.T
	broken *bool
	steps  *int
}

type countingDropsTx struct {
	store.Tx
	s countingDrops
}

func (s countingDrops) Update(ctx context.Context, f func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return f(countingDropsTx{tx, s}) })
}

func (tx countingDropsTx) Write(c *store.Changes) error {
	before, dropped := map[string]int{}, append([]string{}, c.DropThreads...)
	for _, p := range c.DropEntries {
		dropped = append(dropped, p.Thread)
	}
	if len(dropped) > 0 && *tx.s.broken {
		return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "broken"}
	}
	for _, id := range dropped {
		log, err := tx.Entries(store.EntryQuery{Thread: id})
		if err != nil {
			return err
		}
		before[id] = len(log)
	}
	if err := tx.Tx.Write(c); err != nil {
		return err
	}
	for id, n := range before {
		log, err := tx.Entries(store.EntryQuery{Thread: id})
		if err != nil {
			return err
		}
		*tx.s.steps++
		if n-len(log) > 500 {
			tx.s.t.Errorf("one transaction dropped %d entries of thread %s, want at most 500", n-len(log), id)
		}
	}
	return nil
}

// longThread creates a thread with more than n entries.
func (d *fixture) longThread(threadID string, n int) string {
	d.t.Helper()
	run := d.submit(text(threadID, "hello")).Run
	c := d.claimOne("w").Claim
	for i := range n {
		must(d.Append(d.ctx, thread.StepCommit{Claim: c, Number: i + 1, Step: mailroom.Step{Name: "s"}}))(d.t)
	}
	d.settle(thread.Settle{Claim: c, Outcome: thread.OutcomeComplete})
	return run
}

func (d *fixture) storedRows(thread string) (rows, marked, entries, runs int) {
	d.view(func(r store.Reader) error {
		seen, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
		if err != nil {
			return err
		}
		hidden, err := r.Threads(store.ThreadQuery{Deleted: true})
		if err != nil {
			return err
		}
		log, err := r.Entries(store.EntryQuery{Thread: thread})
		if err != nil {
			return err
		}
		of, err := r.Runs(store.RunQuery{Thread: thread})
		rows, marked, entries, runs = len(seen), len(hidden), len(log), len(of)
		return err
	})
	return rows, marked, entries, runs
}

func TestALongThreadIsDeletedInBoundedTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, steps := false, 0
		d := open(t, countingDrops{memory.New(), t, &broken, &steps}, ledger.Options{})
		d.register("w")
		d.longThread("t", 1300)
		if err := d.DeleteThread(d.ctx, "t", nil); err != nil {
			t.Fatal(err)
		}
		if rows, marked, entries, runs := d.storedRows("t"); rows+marked+entries+runs != 0 || steps != 3 {
			t.Errorf("after %d steps: %d threads, %d marked, %d entries, %d runs", steps, rows, marked, entries, runs)
		}
	})
}

// The process exits between two transactions of a deletion.
func TestADeletedThreadIsGoneAndTheRestartDropsItsRows(t *testing.T) {
	for name, end := range map[string]func(d *fixture){
		"by a sweep": func(d *fixture) { d.sweep() },
		"by a submit under its id": func(d *fixture) {
			sent := d.submit(text("t", "again"))
			if got := d.thread("t"); sent.Seq != 1 || got.NextPlace != 2 {
				d.t.Errorf("first seq %d and next place %d of the new thread, want 1 and 2", sent.Seq, got.NextPlace)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken, steps := true, 0
				store := countingDrops{memory.New(), t, &broken, &steps}
				d := open(t, store, ledger.Options{})
				d.register("w")
				run := d.longThread("t", 1300)
				if err := d.DeleteThread(d.ctx, "t", nil); err != nil {
					t.Fatal(err)
				}
				if rows, marked, _, _ := d.storedRows("t"); rows != 0 || marked != 1 {
					t.Errorf("readers find %d threads, %d are marked, want 0 and 1", rows, marked)
				}
				_, err := d.Retry(d.ctx, thread.Retry{Run: run})
				wantCode(t, err, mailroom.CodeNotFound)
				wantCode(t, d.DeleteThread(d.ctx, "t", nil), mailroom.CodeNotFound)
				_, err = d.PatchThread(d.ctx, "t", thread.Patch{})
				wantCode(t, err, mailroom.CodeNotFound)
				if err := d.close(); err != nil {
					t.Fatal(err)
				}
				broken = false
				d = open(t, store, ledger.Options{})
				end(d)
				_, marked, entries, runs := d.storedRows("t")
				if fresh := d.log("t"); marked != 0 || entries > 2 || runs > 1 || len(fresh) > 0 && fresh[0].Seq != 1 {
					t.Errorf("remaining: %d marked threads, %d entries, %d runs; want none", marked, entries, runs)
				}
			})
		})
	}
}
