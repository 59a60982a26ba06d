package ledger_test

import (
	"context"
	"errors"
	"fmt"
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

// controlledStore is a store whose Updates a test controls: the next one waits for the channel of
// holdNext, and each one uses the next fault.
type controlledStore struct {
	store.Store

	mu     sync.Mutex
	gate   chan struct{}
	faults []storetest.Fault
	calls  int
}

// newControlledStore wraps s, or a new memory store.
func newControlledStore(s store.Store) *controlledStore {
	f := &controlledStore{}
	if s == nil {
		s = memory.New()
	}
	f.Store = storetest.Faulty(s, func(int) storetest.Fault {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls++
		var next storetest.Fault
		if len(f.faults) > 0 {
			next, f.faults = f.faults[0], f.faults[1:]
		}
		if f.gate != nil {
			next.Gate, f.gate = f.gate, nil
		}
		return next
	})
	return f
}

// holdNext makes the next Update wait for go.
func (f *controlledStore) holdNext() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gate := make(chan struct{})
	f.gate = gate
	return func() { close(gate) }
}

func (f *controlledStore) setFaults(faults ...storetest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, faults...)
}

// updates returns the number of Updates since its last call.
func (f *controlledStore) updates() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.calls
	f.calls = 0
	return n
}

// gatherBatch runs the operations in one batch and returns their errors in order. Another operation
// keeps the committer busy until all are queued.
func gatherBatch(t *testing.T, d *fixture, f *controlledStore, ops ...func() error) []error {
	t.Helper()
	release := f.holdNext()
	first := make(chan error, 1)
	go func() { _, err := d.Submit(d.ctx, text("first", "hello")); first <- err }()
	synctest.Wait()
	f.updates()
	errs := make([]error, len(ops))
	var all sync.WaitGroup
	for i, op := range ops {
		all.Go(func() { errs[i] = op() })
		synctest.Wait() // queue the operations in order
	}
	release()
	all.Wait()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	return errs
}

func submitFunc(d *fixture, in thread.Submit) func() error {
	return func() error { _, err := d.Submit(d.ctx, in); return err }
}

func codes(errs []error) (list []mailroom.Code) {
	for _, err := range errs {
		list = append(list, mailroom.CodeOf(err))
	}
	return list
}

func TestARefusedOperationFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		d.submit(text("t", "busy"))
		errs := gatherBatch(t, d, f,
			submitFunc(d, text("a", "hello")),
			submitFunc(d, mode(mailroom.ModeReject, "t", "hello")),
			submitFunc(d, text("t", "hello")),
		)
		wantEqual(t, "answers", codes(errs), []mailroom.Code{"", mailroom.CodeBusy, ""})
		wantEqual(t, "commits", f.updates(), 1)
		wantEqual(t, "log", d.kinds("t"), "message, run.queued, message, run.queued")
	})
}

func TestAnOperationSeesTheEarlierOnesOfItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		keyed := text("t", "hello")
		keyed.Key = "k"
		var outs [2]store.Submitted
		submit := func(i int) func() error {
			return func() (err error) { outs[i], err = d.Submit(d.ctx, keyed); return err }
		}
		errs := gatherBatch(t, d, f, submit(0), submit(1), submitFunc(d, mode(mailroom.ModeReject, "t", "hello")),
			submitFunc(d, mode(mailroom.ModeLatest, "t", "instead")), func() error { return d.DeleteThread(d.ctx, "t", nil) })
		wantEqual(t, "answers", codes(errs), []mailroom.Code{"", "", mailroom.CodeBusy, "", mailroom.CodeConflict})
		wantEqual(t, "repeat", []any{outs[1].Run, outs[1].Disposition}, []any{outs[0].Run, store.DispositionDuplicate})
		wantEqual(t, "commits", f.updates(), 1)
		wantEqual(t, "log", d.kinds("t"), "message, run.queued, message, run.queued, run.cancelled")
	})
}

func TestABatchCanEmptyAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		var ops []func() error
		for range 20 {
			run := d.submit(text("t", "hello")).Run
			ops = append(ops, func() error { _, err := d.Cancel(d.ctx, run, "ann"); return err })
		}
		wantEqual(t, "answers", codes(gatherBatch(t, d, f, ops...)), make([]mailroom.Code, 20))
		wantEqual(t, "commits", f.updates(), 1)
		wantEqual(t, "due", d.thread("t").Due, mailroom.Due{})
	})
}

func TestAThreadDeletedInABatchCanBeRecreatedInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		d.register("w")
		keyed := text("t", "hello")
		keyed.Key = "k"
		d.submit(keyed)
		d.serve("w")
		errs := gatherBatch(t, d, f, func() error { return d.DeleteThread(d.ctx, "t", nil) }, submitFunc(d, keyed))
		wantEqual(t, "answers", codes(errs), []mailroom.Code{"", ""})
		wantEqual(t, "log", d.kinds("t"), "message, run.queued")
	})
}

func TestARefusedSendUndoesItsStepAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		d.register("w")
		d.submit(text("t", "hello"))
		c := d.claimOne("w").Claim
		must(d.Append(d.ctx, thread.StepCommit{Claim: c, Number: 1,
			Step: mailroom.Step{Sends: []mailroom.Send{{Name: "x", Thread: "u", Parts: mailroom.Text("one")}}}}))(t)
		log := d.kinds("u")
		errs := gatherBatch(t, d, f,
			submitFunc(d, text("a", "hello")),
			func() error {
				_, err := d.Append(d.ctx, thread.StepCommit{Claim: c, Number: 2, Step: mailroom.Step{Sends: []mailroom.Send{
					{Name: "y", Thread: "u", Parts: mailroom.Text("two")}, {Name: "x", Thread: "u", Parts: mailroom.Text("another")},
				}}})
				return err
			},
			submitFunc(d, text("b", "hello")),
		)
		wantEqual(t, "answers", codes(errs), []mailroom.Code{"", mailroom.CodeConflict, ""})
		wantEqual(t, "log", d.kinds("u"), log)
	})
}

// rejectingStore fails every write that touches the thread "bad".
type rejectingStore struct{ store.Store }

func (s rejectingStore) Update(ctx context.Context, f func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return f(rejectingTx{tx}) })
}

type rejectingTx struct{ store.Tx }

func (tx rejectingTx) Write(c *store.Changes) error {
	for _, row := range c.Threads {
		if row.ID == "bad" {
			return errors.New("database error")
		}
	}
	return tx.Tx.Write(c)
}

func TestOnlyTheOperationThatTheDatabaseRefusesFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(rejectingStore{memory.New()})
		d := open(t, f, ledger.Options{})
		d.register("w")
		answer := startClaimer(t.Context(), d, "echo", 1)
		errs := gatherBatch(t, d, f, submitFunc(d, text("a", "hello")), submitFunc(d, text("bad", "hello")),
			submitFunc(d, text("b", "hello")))
		wantEqual(t, "answers", codes(errs), []mailroom.Code{"", mailroom.CodeInternal, ""})
		for _, thread := range []string{"a", "b"} {
			wantEqual(t, "log of "+thread, d.kinds(thread)[:19], "message, run.queued")
		}
		wantEqual(t, "claimed", len(<-answer), 1)
	})
}

func TestAnUnknownOutcomeIsRepeatedWithItsKey(t *testing.T) {
	for name, kind := range map[string]storetest.FaultKind{"nothing happened": storetest.FailBefore,
		"it happened": storetest.FailAfter} {
		t.Run(name, func(t *testing.T) {
			f := newControlledStore(nil)
			d := open(t, f, ledger.Options{})
			in := text("t", "hello")
			in.Key = "k"
			f.setFaults(storetest.Fault{Kind: kind})
			_, err := d.Submit(t.Context(), in)
			wantCode(t, err, mailroom.CodeUnavailable)
			d.submit(in)
			wantEqual(t, "log", d.kinds("t"), "message, run.queued")
		})
	}
}

func TestAStoreThatClosesEndsTheLedgerAndFailsQueuedOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "disk full", Cause: store.ErrClosed}
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		d.register("w")
		release := f.holdNext()
		f.setFaults(storetest.Fault{Kind: storetest.FailBefore, Err: closed})
		var errs [4]error
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() { _, errs[i] = d.Submit(d.ctx, text(fmt.Sprint("t", i), "hello")) })
			synctest.Wait()
		}
		all.Go(func() {
			_, errs[3] = d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Slots: 1, Agents: map[string]int{"echo": 1},
				Wait: true})
		})
		synctest.Wait()
		release()
		all.Wait()
		wantEqual(t, "answers", codes(errs[:]), []mailroom.Code{mailroom.CodeUnavailable, mailroom.CodeUnavailable,
			mailroom.CodeUnavailable, mailroom.CodeUnavailable})
		if err := d.close(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("run: got %v, want the error that closed the store", err)
		}
		_, err := d.Submit(d.ctx, text("t", "late"))
		wantCode(t, err, mailroom.CodeUnavailable)
	})
}

func TestAStoreThatClosesDuringSingleCommitsAnswersAllWaitingClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "disk full", Cause: store.ErrClosed}
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		d.register("w")
		var errs [3]error
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				_, errs[i] = d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Slots: 1, Agents: map[string]int{"codex": 1},
					Wait: true})
			})
		}
		synctest.Wait()
		f.setFaults(
			storetest.Fault{Kind: storetest.FailBefore, Err: errors.New("database error")}, // the batch
			storetest.Fault{}, // the submit by itself
			storetest.Fault{}, // the first claim
			storetest.Fault{Kind: storetest.FailBefore, Err: closed},
		)
		d.submit(text("t", "hello"))
		all.Wait()
		for _, err := range errs {
			wantCode(t, err, mailroom.CodeUnavailable)
		}
		if err := d.close(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("run: got %v, want the error that closed the store", err)
		}
	})
}

func TestAnOperationCanBeCancelledUntilItIsInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		release := f.holdNext()
		ctx, cancel := context.WithCancel(t.Context())
		errs := make([]chan error, 2)
		for i := range errs {
			errs[i] = make(chan error, 1)
			go func() { _, err := d.Submit(ctx, text(fmt.Sprint("t", i), "hello")); errs[i] <- err }()
			synctest.Wait()
		}
		cancel()
		wantCode(t, <-errs[0], mailroom.CodeUnavailable) // in the batch, whose outcome is unknown
		if err := <-errs[1]; !errors.Is(err, context.Canceled) {
			t.Errorf("withdrawn: got error %v, want %v", err, context.Canceled)
		}
		release()
		synctest.Wait()
		wantEqual(t, "log of the one in the batch", d.kinds("t0"), "message, run.queued")
		wantEqual(t, "log of the one withdrawn", d.kinds("t1"), "")
		_, err := d.Submit(ctx, text("t2", "hello"))
		if !errors.Is(err, context.Canceled) || d.thread("t2") != nil {
			t.Errorf("an operation after the end of Run: %v, want unavailable", err)
		}
	})
}

func TestAWaitingClaimWhoseContextEndsInABatchReturnsItsClaims(t *testing.T) {
	for name, due := range map[string]bool{"something": true, "nothing": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newControlledStore(nil)
				d := open(t, f, ledger.Options{})
				d.register("w")
				ctx, cancel := context.WithCancel(t.Context())
				answer := startClaimer(ctx, d, "echo", 1)
				release := f.holdNext()
				in := text("t", "hello")
				if !due {
					in.Agent = "codex"
				}
				var all sync.WaitGroup
				all.Go(func() { d.submit(in) })
				synctest.Wait()
				cancel()
				synctest.Wait()
				select {
				case work := <-answer:
					t.Errorf("Claim returned %v before its batch was committed", work)
				default:
				}
				release()
				all.Wait()
				got := <-answer
				wantEqual(t, "claimed", len(got) == 1, due)
				synctest.Wait()
				wantEqual(t, "claims that were not released", len(d.claim("w", 1)), 0)
			})
		})
	}
}

func TestRenewalsGoFirstAndClaimsDoNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := start(t, f, ledger.Options{})
		d.register("w")
		release := f.holdNext()
		var all sync.WaitGroup
		all.Go(func() { d.submit(text("first", "hello")) })
		synctest.Wait()
		behind := make(chan struct{})
		f.setFaults(storetest.Fault{}, storetest.Fault{Gate: behind}) // the next batch commits, the one after it waits
		var claimed, renewed atomic.Bool
		all.Go(func() { d.claim("w", 1); claimed.Store(true) })
		synctest.Wait()
		for i := range 1000 {
			all.Go(func() { d.submit(text(fmt.Sprint("t", i), "hello")) })
		}
		synctest.Wait()
		all.Go(func() { d.renew("w", 0); renewed.Store(true) })
		synctest.Wait()
		release()
		synctest.Wait()
		if !claimed.Load() || !renewed.Load() {
			t.Errorf("after the next commit: claimed %v, renewed %v", claimed.Load(), renewed.Load())
		}
		close(behind)
		all.Wait()
	})
}
