package thread_test

import (
	"bytes"
	"fmt"
	"testing"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// pages runs the queue of w with one State that is kept between transactions, as the ledger caches it. It
// returns how many rows each page of the queue has, and the largest number of runs that were kept.
func (w *fixture) pages(runs int) (pages []int, most int) {
	w.t.Helper()
	row := w.row
	l := thread.NewState(&row)
	commit := func(f func()) {
		for {
			queue, held := l.RowsNeeded(thread.ScopeHead, w.now)
			if queue == 0 && held == 0 {
				break
			}
			pages = append(pages, queue)
			w.fill(l, copyRun, store.RunsQueued, queue)
		}
		f()
		var c store.Changes
		l.Collect(&c)
		for _, r := range c.Runs {
			w.runs[r.ID] = copyRun(r)
		}
		if !l.Trim() {
			w.t.Fatal("a thread with a queue is not cached")
		}
		most = max(most, l.Runs.Len())
	}
	for i := range runs {
		var r *mailroom.Run
		commit(func() { r = l.Claim(thread.Claimant{Worker: "w1", Round: 1}, l.Due.Agent, l.Due.LastAttempt, w.now) })
		if want := fmt.Sprintf("r%03d", i); r == nil || r.ID != want {
			w.t.Fatalf("claimed %v, want run %s", r, want)
		}
		commit(func() {
			if _, err := l.Settle(&thread.Settle{Claim: claimOf(r), Number: 1, Outcome: thread.OutcomeComplete},
				w.now); err != nil {
				w.t.Fatal(err)
			}
		})
	}
	return pages, most
}

func TestACachedThreadReadsFurtherAheadWithEachPage(t *testing.T) {
	for _, c := range []struct {
		name    string
		options int // bytes of each run
		want    []int
		most    int
	}{
		{"small runs", 0, []int{3, 6, 12, 16, 16, 16, 16}, 16},
		{"runs with large options", mailroom.MaxOptions / 2, []int{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			for i := range 100 {
				s := in("", fmt.Sprintf("r%03d", i))
				s.Options = bytes.Repeat([]byte("1"), c.options)
				w.must(s)
			}
			pages, most := w.pages(80)
			wantEqual(t, "pages", pages[:min(len(pages), len(c.want))], c.want)
			wantEqual(t, "most runs kept", most, c.most)
		})
	}
}
