package ledger

import (
	"fmt"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// longQueue returns the state of a thread that has read ahead, as it is after a transaction.
func longQueue(id string, runs int) *thread.State {
	t := thread.NewState(&mailroom.Thread{ID: id, Key: 1, Due: mailroom.Due{At: time.Unix(1, 0), Agent: "echo"}})
	for range 3 {
		t.RowsNeeded(thread.ScopeHead, time.Unix(1, 0)) // each page is larger than the one before
	}
	var rows []*mailroom.Run
	for i := range runs {
		rows = append(rows, &mailroom.Run{ID: fmt.Sprint(id, ".", i), Thread: id, Status: mailroom.StatusQueued,
			Place: int64(i + 1)})
	}
	t.Runs.SetQueue(store.RunsQueued, rows, false)
	return t
}

func TestTheCacheIsBoundedInRuns(t *testing.T) {
	c := newThreadCache()
	most := 0
	for i := range maxCachedRuns / 5 {
		s := longQueue(fmt.Sprint("t", i), 20)
		c.put(s)
		if i%3 == 0 { // used and kept again
			c.put(c.pop(&s.Thread))
		}
		if i%100 != 0 {
			continue
		}
		young, all := 0, 0
		for _, s := range c.young {
			young += s.Runs.Len()
		}
		for _, s := range c.old {
			all += s.Runs.Len()
		}
		all += young
		if young != c.runs {
			t.Fatalf("after %d threads: the cache counts %d young runs, it has %d", i, c.runs, young)
		}
		most = max(most, all)
	}
	if limit := 2*maxCachedRuns + 200; most > limit || most < maxCachedRuns {
		t.Errorf("the cache kept up to %d runs, want between %d and %d", most, maxCachedRuns, limit)
	}
}
