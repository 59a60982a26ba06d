package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/ledger"
)

func TestAnObserverHearsOfEveryOperationCommitAndEnd(t *testing.T) {
	var mu sync.Mutex
	var ops, ended []string
	var commits, batched int
	d := open(t, nil, ledger.Options{Observe: ledger.Observe{
		Operation: func(name string, err error, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			ops = append(ops, fmt.Sprintf("%s %s %v", name, mailroom.CodeOf(err), took > 0))
		},
		Commit: func(n int, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			commits, batched = commits+1, batched+n
		},
		Ended: func(r *mailroom.Run) {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, fmt.Sprintf("%s %s", r.Thread, r.Status))
		},
	}})
	d.register("w")
	d.submit(text("a", "one"))
	dropped := d.submit(text("a", "two"))
	if _, err := d.Submit(d.ctx, mode(mailroom.ModeReject, "a", "three")); mailroom.CodeOf(err) != mailroom.Busy {
		t.Fatal(err)
	}
	must(d.Cancel(d.ctx, dropped.Run, "ann"))(t)
	d.settle(complete(d.claimOne("w").Claim, "done"))
	ctx, cancel := context.WithCancel(d.ctx)
	cancel()
	if _, err := d.Claim(ctx, ledger.ClaimRequest{Worker: "w", Round: 9, Slots: 1, Agents: map[string]int{"echo": 1}, Wait: true}); err == nil {
		t.Fatal("a claim that was taken back was made")
	}
	if err := d.close(); err != nil { // ends what is told after the answers
		t.Fatal(err)
	}
	want := []string{
		"register  true", "submit  true", "submit  true", "submit busy true", "cancel  true", "claim  true", "settle  true",
		"claim internal false", // it stood
	}
	if diff := cmp.Diff(want, ops); diff != "" {
		t.Error(diff)
	}
	slices.Sort(ended)
	if diff := cmp.Diff([]string{"a cancelled", "a completed"}, ended); diff != "" {
		t.Error(diff)
	}
	if commits == 0 || batched != 7 {
		t.Errorf("%d commits of %d operations, want 7 operations", commits, batched)
	}
}
