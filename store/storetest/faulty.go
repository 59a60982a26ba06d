package storetest

import (
	"context"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/store"
)

// Fault is a fault to inject into one Update. The zero Fault injects nothing.
type Fault struct {
	Kind FaultKind
	// Gate, if not nil, delays the Update until Gate is closed, or fails it if its context ends
	// first.
	Gate <-chan struct{}
	// Err is the error of FailBefore and FailAfter; nil selects an Error with code Unavailable.
	Err error
}

// FaultKind is a way to fail.
type FaultKind int

const (
	NoFault       FaultKind = iota
	FailBefore              // nothing is written, f is not called
	FailAfter               // f is committed, but the Update returns Err unless f fails
	Cancel                  // the context ends after f has returned, before the commit
	Conflict                // what f did is discarded, and f is called again
	EarlyConflict           // the same, and in its first call f's Write or its second Load or Due fails
)

// Lock locks rows and returns them, in the order of the ids.
func Lock(tx store.Tx, workers, threads []string) ([]*store.Worker, []*mailroom.Thread, error) {
	l, err := tx.Load(store.Need{Workers: workers, Threads: threads})
	if err != nil {
		return nil, nil, err
	}
	return l.Workers, l.Threads, nil
}

// Due locks due threads and returns them.
func Due(tx store.Tx, now time.Time, wants []store.Capacity) ([]*mailroom.Thread, time.Time, error) {
	l, next, err := tx.Due(now, wants, nil)
	if err != nil {
		return nil, next, err
	}
	return l.Threads, next, nil
}

// Faulty wraps a store and injects plan(n) into the n-th Update, counted from 1 in the order of
// calls. It does not affect Views. Goroutines may call plan concurrently.
func Faulty(s store.Store, plan func(n int) Fault) store.Store {
	return &faulty{Store: s, plan: plan}
}

type faulty struct {
	store.Store
	plan  func(n int) Fault
	calls atomic.Int64
}

func (s *faulty) Update(ctx context.Context, f func(store.Tx) error) error {
	fault := s.plan(int(s.calls.Add(1)))
	if fault.Err == nil {
		fault.Err = &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "an injected fault"}
	}
	if fault.Gate != nil {
		select {
		case <-fault.Gate:
		case <-ctx.Done():
			return &mailroom.Error{
				Code: mailroom.CodeUnavailable, Message: "an injected delay", Cause: context.Cause(ctx),
			}
		}
	}
	switch fault.Kind {
	case FailBefore:
		return fault.Err
	case FailAfter:
		if err := s.Store.Update(ctx, f); err != nil {
			return err
		}
		return fault.Err
	case Cancel:
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return s.Store.Update(ctx, func(tx store.Tx) error {
			err := f(tx)
			cancel()
			return err
		})
	}
	if fault.Kind != Conflict && fault.Kind != EarlyConflict {
		return s.Store.Update(ctx, f)
	}
	var lost bool
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		if fault.Kind == EarlyConflict {
			tx = &losingTx{Tx: tx, lost: &lost}
		}
		if err := f(tx); err != nil && !lost {
			return err
		}
		lost = true
		return errConflict()
	})
	if !lost {
		return err
	}
	return s.Store.Update(ctx, f)
}

func errConflict() error {
	return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "an injected conflict"}
}

// losingTx is a transaction that ends in a conflict.
type losingTx struct {
	store.Tx
	loads int
	lost  *bool
}

func (tx *losingTx) Load(n store.Need) (*store.Loaded, error) {
	if err := tx.nextLoad(); err != nil {
		return nil, err
	}
	return tx.Tx.Load(n)
}

func (tx *losingTx) Due(now time.Time, wants []store.Capacity, known store.Known) (*store.Loaded, time.Time, error) {
	if err := tx.nextLoad(); err != nil {
		return nil, time.Time{}, err
	}
	return tx.Tx.Due(now, wants, known)
}

func (tx *losingTx) nextLoad() error {
	if tx.loads++; tx.loads > 1 {
		*tx.lost = true
		return errConflict()
	}
	return nil
}

func (tx *losingTx) Write(*store.Changes) error {
	*tx.lost = true
	return errConflict()
}
