package ledger_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

func TestOf32ConcurrentClaimersOneWins(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.submit(text("t", "a"))
	d.submit(text("t", "b"))
	var mu sync.Mutex
	var won []thread.ClaimedRun
	concurrently(32, func(i int) {
		w := fmt.Sprint("w", i)
		if _, err := d.Register(t.Context(), store.Worker{ID: w}); err != nil {
			t.Error(err)
		}
		work, err := d.Claim(t.Context(), thread.ClaimRequest{Worker: w, Round: 1, Slots: 1,
			Agents: map[string]int{"echo": 1}})
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		won = append(won, work...)
	})
	wantEqual(t, "claims", len(won), 1)
}

func TestAClaimTakesAtMostWhatItAsksFor(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	for i := range 4 {
		for _, agent := range []string{"a", "b"} {
			in := text(fmt.Sprint(agent, i), "hello")
			in.Agent = agent
			d.submit(in)
		}
	}
	for _, c := range []struct {
		slots int
		per   map[string]int
		want  map[string]int
	}{
		{3, map[string]int{"a": 1, "b": 1}, map[string]int{"a": 1, "b": 1}},
		{1, map[string]int{"a": 1, "b": 1}, map[string]int{"a": 1}},
		{5, map[string]int{"b": 5, "a": 0}, map[string]int{"b": 3}},
		{0, map[string]int{"a": 5}, map[string]int{}},
		{5, map[string]int{"a": 1}, map[string]int{"a": 1}},
	} {
		got := map[string]int{}
		for _, w := range must(d.Claim(t.Context(), thread.ClaimRequest{Worker: "w", Round: 1, Slots: c.slots,
			Agents: c.per}))(t) {
			got[w.Run.Agent]++
		}
		wantEqual(t, "claimed", got, c.want)
	}
}

func TestAClaimNeedsALiveWorker(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.submit(text("t", "hello"))
	d.register("w")
	if err := d.Deregister(t.Context(), thread.Leave{Worker: "w"}); err != nil {
		t.Fatal(err)
	}
	for _, worker := range []string{"w", "unknown"} {
		_, err := d.Claim(t.Context(), thread.ClaimRequest{Worker: worker, Round: 1, Slots: 1,
			Agents: map[string]int{"echo": 1}})
		wantCode(t, err, mailroom.CodeLeaseLost)
	}
}

func TestRunsStartByPriorityThenPlace(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	var want [3][]string
	for i, p := range []int{9, 1, 5, 1, 9, 5} {
		in := text("t", fmt.Sprint(i))
		in.Priority = &p
		group := map[int]int{1: 0, 5: 1, 9: 2}[p]
		want[group] = append(want[group], d.submit(in).Run)
	}
	wantEqual(t, "order", d.serve("w"), slices.Concat(want[:]...))
}

func TestThreadsAreClaimedByPriorityThenDueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		var order []string
		for _, c := range []struct {
			thread   string
			priority int
		}{{"third", 5}, {"fourth", 5}, {"first", 1}, {"second", 1}} {
			in := text(c.thread, "hello")
			in.Priority = &c.priority
			d.submit(in)
			<-time.After(time.Millisecond)
		}
		for _, w := range d.claim("w", 10) {
			order = append(order, w.Claim.Thread)
		}
		wantEqual(t, "order", order, []string{"first", "second", "third", "fourth"})
	})
}

func TestThreadsWithBacklogsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		for _, thread := range []string{"a", "b", "c"} {
			for range 3 {
				d.submit(text(thread, "hello"))
				<-time.After(time.Millisecond)
			}
		}
		var order []string
		for work := d.claim("w", 1); len(work) > 0; work = d.claim("w", 1) {
			order = append(order, work[0].Claim.Thread)
			<-time.After(time.Millisecond)
			d.settle(complete(work[0].Claim, "ok"))
		}
		wantEqual(t, "order", order, []string{"a", "b", "c", "a", "b", "c", "a", "b", "c"})
	})
}

// fill adds n runs to the queue of a thread of s, without entries, which a claim does not read.
func fill(t *testing.T, s store.Store, thread string, n int) {
	t.Helper()
	err := s.Update(t.Context(), func(tx store.Tx) error {
		_, rows, err := storetest.Lock(tx, nil, []string{thread})
		if err != nil {
			return err
		}
		c := store.Changes{Threads: rows}
		for range n {
			c.Runs = append(c.Runs, &mailroom.Run{
				ID: ledger.NewID(), Thread: thread, Agent: "echo", Priority: mailroom.DefaultPriority, Place: rows[0].NextPlace,
				MaxAttempts: 5, Status: mailroom.StatusQueued, AvailableAt: tx.Now(), CreatedAt: tx.Now(),
				Inputs: []mailroom.Input{{Message: "m", Seq: 1}},
			})
			rows[0].NextPlace++
		}
		return tx.Write(&c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestABacklogOf100000RunsSlowsNoClaim(t *testing.T) {
	const backlog = 100_000
	s := &counting{Store: memory.New()}
	d := start(t, s, ledger.Options{})
	d.register("w")
	d.submit(text("full", "hello"))
	d.submit(text("full", "hello"))
	fill(t, s.Store, "full", backlog)
	d.submit(text("other", "hello"))
	d.submit(text("other", "hello"))
	s.reset()
	work := d.claim("w", 2)
	if got := s.reset(); got.Queries > 8 || got.Rows > 16 {
		t.Errorf("reads of a claim with a backlog of %d runs: %+v", backlog, got)
	}
	wantEqual(t, "claims", len(work), 2)
	for _, w := range work {
		d.settle(complete(w.Claim, "ok"))
		d.claim("w", 1)
		if got := s.reset(); got.Queries > 14 || got.Rows > 20 {
			t.Errorf("reads of a settle and a claim of thread %s: %+v", w.Claim.Thread, got)
		}
	}
}

func TestARunOnItsLastAttemptStartsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.submit(text("a", "poison"))
		d.submit(text("b", "poison"))
		for i := range 2 {
			w := fmt.Sprint("w", i)
			d.register(w)
			wantEqual(t, "claims", len(d.claim(w, 10)), 2)
			if err := d.Deregister(d.ctx, thread.Leave{Worker: w}); err != nil {
				t.Fatal(err)
			}
			if err := d.Sweep(d.ctx, ""); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		d.register("w")
		d.submit(text("c", "harmless"))
		ask := thread.ClaimRequest{Worker: "w", Round: 1, Slots: 10, Agents: map[string]int{"echo": 10}, LastAttempt: true}
		threads := func(work []thread.ClaimedRun) (ids []string) {
			for _, w := range work {
				ids = append(ids, w.Claim.Thread)
			}
			return ids
		}
		wantEqual(t, "first", threads(must(d.Claim(d.ctx, ask))(t)), []string{"a", "c"})
		ask.LastAttempt = false
		wantEqual(t, "while it is active", threads(must(d.Claim(d.ctx, ask))(t)), nil)
		ask.LastAttempt = true
		wantEqual(t, "after it", threads(must(d.Claim(d.ctx, ask))(t)), []string{"b"})
	})
}

// The store is asked for runs on their last attempt and for the others apart, for as many as there are slots.
func TestRunsOnTheirLastAttemptTakeTheSlotsOfTheirAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.submit(text("a", "poison"))
		for i := range 2 {
			w := fmt.Sprint("w", i)
			d.register(w)
			wantEqual(t, "claims", len(d.claim(w, 10)), 1)
			d.expireWorker(w)
			<-time.After(time.Second)
		}
		d.register("w")
		d.submit(text("c", "harmless"))
		ask := thread.ClaimRequest{Worker: "w", Round: 1, Slots: 10, Agents: map[string]int{"echo": 1}, LastAttempt: true}
		wantEqual(t, "claims for one slot of the agent", len(must(d.Claim(d.ctx, ask))(t)), 1)
	})
}

func TestARetryIsClaimableAtItsTimeAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		d.submit(text("t", "hello"))
		d.settle(failure(d.claimOne("w").Claim, mailroom.ClassTransient))
		<-time.After(5*time.Second - time.Microsecond)
		wantEqual(t, "before", len(d.claim("w", 1)), 0)
		<-time.After(time.Microsecond)
		wantEqual(t, "attempt", d.claimOne("w").Claim.Attempt, 2)
	})
}

func TestAScheduledRunIsClaimableAtItsTimeAndBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		in := text("t", "later")
		in.NotBefore = time.Now().Add(time.Minute)
		later := d.submit(in).Run
		first := d.submit(text("t", "now")).Run
		wantEqual(t, "at once", d.serve("w"), []string{first})
		<-time.After(time.Minute - time.Microsecond)
		wantEqual(t, "before", d.serve("w"), nil)
		<-time.After(time.Microsecond)
		wantEqual(t, "at its time", d.serve("w"), []string{later})
	})
}
