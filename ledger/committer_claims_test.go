package ledger_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// testClaimer is a worker that records its assignments.
type testClaimer struct {
	mu    sync.Mutex
	free  int
	round int64
	work  []thread.ClaimedRun
	errs  []error
}

func (k *testClaimer) NextClaim() thread.ClaimRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.round++
	return thread.ClaimRequest{Worker: "w", Round: k.round, Slots: k.free, Agents: map[string]int{"echo": k.free},
		LastAttempt: true}
}

func (k *testClaimer) OnClaimed(asked thread.ClaimRequest, work []thread.ClaimedRun, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free -= len(work)
	k.work = append(k.work, work...)
	if err != nil {
		k.errs, k.free = append(k.errs, err), 0
	}
}

// drain returns the threads assigned since the last call and adds capacity.
func (k *testClaimer) drain(room int) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	threads := []string{}
	for _, w := range k.work {
		threads = append(threads, w.Claim.Thread)
	}
	k.work, k.free = nil, k.free+room
	return threads
}

// subscribe subscribes a claimer until the test, or ctx, ends.
func subscribe(ctx context.Context, d *fixture, k *testClaimer) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.ServeClaims(ctx, k) }()
	synctest.Wait()
	d.t.Cleanup(cancel)
	return func() error {
		cancel()
		return <-ended
	}
}

func TestAClaimerIsServedByConsecutiveBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: memory.New()}
		d := open(t, s, ledger.Options{})
		d.register("w")
		k := &testClaimer{free: 2}
		end := subscribe(t.Context(), d, k)
		s.reset()
		d.submit(text("a", "hello"))
		wantEqual(t, "first", k.drain(0), []string{"a"})
		d.submit(text("b", "hello"))
		wantEqual(t, "second", k.drain(0), []string{"b"})
		d.submit(text("c", "hello"))
		wantEqual(t, "without room", k.drain(1), []string{})
		wantEqual(t, "commits", s.reset().Updates, 3)
		d.Ledger.AskClaimers()
		synctest.Wait()
		wantEqual(t, "with room again", k.drain(0), []string{"c"})
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAssignmentAgreesWithTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		k := &testClaimer{free: 1}
		end := subscribe(t.Context(), d, k)
		in := text("a", "look <here>")
		in.Messages = append(in.Messages, thread.NewMessage{Parts: []mailroom.Part{{Type: "data", Data: []byte(`{"n":1}`)}},
			Visibility: mailroom.VisibleInternal})
		out := d.submit(in)
		want := must(d.Messages(t.Context(), "a", []int64{1, 2}))(t)
		wantEqual(t, "input", k.work[0].Input, want)
		wantEqual(t, "run", k.work[0].Run.ID, out.Run)
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

func TestACancelledClaimerIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		k := &testClaimer{free: 1}
		end := subscribe(t.Context(), d, k)
		if err := end(); err != nil {
			t.Error(err)
		}
		d.submit(text("a", "hello"))
		wantEqual(t, "taken", k.drain(0), []string{})
		wantEqual(t, "still to be claimed", len(d.claim("w", 1)), 1)
	})
}

// slowClaimer is a claimer whose Capacity waits for a signal.
type slowClaimer struct {
	testClaimer
	asked, answer chan struct{}
}

func (k *slowClaimer) NextClaim() thread.ClaimRequest {
	k.asked <- struct{}{}
	<-k.answer
	return k.testClaimer.NextClaim()
}

func TestTheCommitterHoldsNoLockWhileAClaimerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		k := &slowClaimer{asked: make(chan struct{}), answer: make(chan struct{})}
		waiting, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.ServeClaims(waiting, k) }()
		<-k.asked
		ctx, cancel := context.WithCancel(t.Context())
		submitted := make(chan error, 1)
		go func() {
			_, err := d.Submit(ctx, text("a", "hello"))
			submitted <- err
		}()
		synctest.Wait()
		cancel()
		wantEqual(t, "a submit that its caller gives up", errors.Is(<-submitted, context.Canceled), true)
		end()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("ServeClaims returned %v before its claimer had returned", err)
		default:
		}
		k.answer <- struct{}{}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAClaimerLearnsOfAClaimWithAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		s := storetest.Faulty(memory.New(), func(int) storetest.Fault {
			if fails.Swap(false) {
				return storetest.Fault{Kind: storetest.FailAfter}
			}
			return storetest.Fault{}
		})
		d := open(t, s, ledger.Options{})
		d.register("w")
		k := &testClaimer{free: 1}
		end := subscribe(t.Context(), d, k)
		fails.Store(true)
		_, err := d.Submit(t.Context(), text("a", "hello"))
		wantCode(t, err, mailroom.CodeUnavailable)
		synctest.Wait()
		wantEqual(t, "errors", len(k.errs), 1)
		wantEqual(t, "taken", k.drain(1), []string{})
		d.submit(text("b", "hello"))
		wantEqual(t, "after it", k.drain(0), []string{"b"})
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAClaimerEndsWithItsLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		k := &testClaimer{free: 1}
		ended := make(chan error, 1)
		go func() { ended <- d.ServeClaims(t.Context(), k) }()
		synctest.Wait()
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
		err := <-ended
		wantCode(t, err, mailroom.CodeUnavailable)
		if errors.Is(err, store.ErrClosed) {
			t.Errorf("got %v, want no error while the store is open", err)
		}
	})
}
