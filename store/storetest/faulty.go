package storetest

import (
	"context"
	"sync/atomic"

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
	NoFault    FaultKind = iota
	FailBefore           // nothing is written, f is not called
	FailAfter            // f is committed, but the Update returns Err unless f fails
	Cancel               // the context ends after f has returned, before the commit
)

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
	return s.Store.Update(ctx, f)
}
