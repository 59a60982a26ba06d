package ledger_test

import (
	"context"
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
)

// lockingStore is a store in which another server holds threads. A Load that needs one fails after a
// second, or at once if it must not wait.
type lockingStore struct {
	store.Store

	mu    sync.Mutex
	held  []string
	waits int // Loads that waited
}

func (s *lockingStore) hold(threads ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.waits = threads, 0
}

func (s *lockingStore) waited() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits
}

func (s *lockingStore) Update(ctx context.Context, f func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return f(lockingTx{tx, s}) })
}

type lockingTx struct {
	store.Tx
	s *lockingStore
}

func (tx lockingTx) Load(n store.Need) (*store.Loaded, error) {
	var locked []string
	wait := false
	tx.s.mu.Lock()
	for _, id := range n.Threads {
		if slices.Contains(tx.s.held, id) {
			locked = append(locked, id)
			wait = wait || !slices.Contains(n.NoWait, id)
		}
	}
	if wait {
		tx.s.waits++
	}
	tx.s.mu.Unlock()
	if wait {
		<-time.After(time.Second) // of the bubble
	}
	if len(locked) > 0 {
		return nil, &store.LockedError{Threads: locked}
	}
	return tx.Tx.Load(n)
}

func TestALockedThreadDelaysOnlyItsOwnOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lockingStore{Store: memory.New()}
		d := open(t, s, ledger.Options{})
		s.hold("hot")
		var places [2]int64
		var all sync.WaitGroup
		began := time.Now()
		for i := range places {
			all.Go(func() { places[i] = d.submit(text("hot", "hello")).Place })
			synctest.Wait() // the batch of the first one waits for a second
		}
		for i := range 20 { // in sequence
			d.submit(text("cold", fmt.Sprint("more ", i)))
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("operations on other threads took %v, want at most 2s", took)
		}
		wantEqual(t, "loads that waited for a lock", s.waited() <= 2, true)
		s.hold()
		all.Wait()
		wantEqual(t, "places in the locked thread", places, [2]int64{1, 2})
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the operations on the locked thread took %v, want at most 3s", took)
		}
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnOperationOnAThreadThatStaysLockedIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lockingStore{Store: memory.New()}
		d := open(t, s, ledger.Options{})
		s.hold("hot")
		began := time.Now()
		in := text("hot", "one")
		in.Key = "k"
		_, err := d.Submit(t.Context(), in)
		wantCode(t, err, mailroom.CodeUnavailable)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the operation returned after %v, want within 10s", took)
		}
		s.hold()
		d.submit(in)
		wantEqual(t, "log", d.kinds("hot"), "message, run.queued")
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A delivery of one operation leads to a locked thread, which the operation does not name.
func TestALockedThreadThatNoOperationNamesDelaysOneOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lockingStore{Store: memory.New()}
		d := open(t, s, ledger.Options{})
		d.register("w")
		in := text("asks", "hello")
		in.DeliverTo, in.DeliverAgent = "hot", "echo"
		d.submit(in)
		c := d.claimOne("w").Claim
		s.hold("hot")
		settled, begun := make(chan error, 1), 0
		go func() { // ends once hot is free
			s := complete(c, "ok")
			s.Number = 1
			_, err := d.SettleWith(d.ctx, s, func() { begun++ })
			settled <- err
		}()
		var all sync.WaitGroup
		began := time.Now()
		for i := range 5 {
			all.Go(func() { d.submit(text(fmt.Sprint("cold ", i), "hello")) })
		}
		all.Wait()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("operations on other threads took %v, want at most 4s", took)
		}
		s.hold()
		if err := <-settled; err != nil {
			t.Error(err)
		}
		wantEqual(t, "calls when the settle entered a batch", begun, 1)
		wantEqual(t, "log of the delivery", d.kinds("hot"), "message, run.queued")
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
	})
}
