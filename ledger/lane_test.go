package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
)

// A run that is due after a commit of one lane starts at once in another lane that has a slot.
func TestALaneStartsTheDueRunsOfOtherLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.New()
		d := open(t, rows, ledger.Options{Lanes: []store.Store{rows, rows}, Poll: time.Hour})
		d.register("w")
		k := &testClaimer{free: 40}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.LaneWorkers(2).ServeClaims(ctx, k) }()
		synctest.Wait()
		for i := range 40 {
			d.submit(text(fmt.Sprint("t", i), "hello"))
		}
		synctest.Wait()
		wantEqual(t, "started runs", len(k.drain(0)), 40)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Many callers submit to the same threads. The workers of two lanes claim and settle each run once.
func TestWorkersInTwoLanesRunEachSubmitOnce(t *testing.T) {
	cluster := pgtest.Shared(t)
	o := postgres.Options{URL: cluster.URL(), Schema: cluster.Schema(t), Node: "a", AllowUnsafe: true}
	handles := make([]store.Store, 2)
	for i := range handles {
		o.Node = fmt.Sprint("lane", i)
		s, err := postgres.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		handles[i] = s
	}
	d := open(t, handles[0], ledger.Options{Lanes: handles[1:]})
	const callers, each = 8, 40
	var all, submits, subscribed sync.WaitGroup
	all.Add(callers * each)
	ctx, cancel := context.WithCancel(t.Context())
	for lane := range handles {
		worker := fmt.Sprint("w", lane)
		d.register(worker)
		k := &servingClaimer{t: t, workers: d.LaneWorkers(lane), worker: worker, slots: 3, settled: all.Done}
		subscribed.Go(func() {
			if err := k.workers.ServeClaims(ctx, k); err != nil {
				t.Error(err)
			}
			k.settles.Wait()
		})
	}
	for range callers {
		submits.Go(func() {
			for i := range each {
				if _, err := d.Submit(d.ctx, text(fmt.Sprint("t", i%7), "hello")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	submits.Wait()
	all.Wait()
	cancel()
	subscribed.Wait()
	d.view(func(r store.Reader) error {
		counts, err := r.Count(store.CountQuery{Statuses: []mailroom.Status{mailroom.StatusCompleted}})
		wantEqual(t, "completed runs", counts.Sum(), callers*each)
		return err
	})
}
