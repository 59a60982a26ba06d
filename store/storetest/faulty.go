package storetest

import (
	"context"
	"sync/atomic"

	"mailroom"
)

// Fault is what goes wrong with one Update. The zero Fault is none.
type Fault struct {
	Kind FaultKind
	// Gate, if not nil, makes the Update slow: it begins when Gate is closed,
	// or fails when its context ends first.
	Gate <-chan struct{}
	// Err is what FailBefore and FailAfter report; nil is an Error of code
	// Unavailable.
	Err error
}

// FaultKind is a way to fail.
type FaultKind int

const (
	NoFault    FaultKind = iota
	FailBefore           // nothing happens, f is not called
	FailAfter            // it happens but is reported failed; f's own error stays
	Cancel               // its context ends when f has returned, before the commit
)

// Faulty wraps a store so that plan decides the fate of every Update. n counts
// the Updates from 1 in the order they are called. Views are left alone. plan
// may be called by several goroutines at a time.
func Faulty(s mailroom.Store, plan func(n int) Fault) mailroom.Store {
	return &faulty{Store: s, plan: plan}
}

type faulty struct {
	mailroom.Store
	plan  func(n int) Fault
	calls atomic.Int64
}

func (s *faulty) Update(ctx context.Context, f func(mailroom.Tx) error) error {
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
		return s.Store.Update(ctx, func(tx mailroom.Tx) error {
			err := f(tx)
			cancel()
			return err
		})
	}
	return s.Store.Update(ctx, f)
}
