package inbound

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"mailroom/internal/recovery"
)

// maxBackground bounds the background calls of a connection.
const maxBackground = 8

// background owns the goroutines of one call of Receive.
type background struct {
	// Set by newBackground.
	ctx   context.Context // ends when a goroutine fails
	fail  context.CancelCauseFunc
	log   *slog.Logger
	calls chan struct{} // holds a value for each background call

	all sync.WaitGroup
}

func newBackground(ctx context.Context, log *slog.Logger) *background {
	ctx, fail := context.WithCancelCause(ctx)
	return &background{ctx: ctx, fail: fail, log: log, calls: make(chan struct{}, maxBackground)}
}

// start runs f in a goroutine. Its error or panic ends Receive.
func (b *background) start(what string, f func() error) {
	b.all.Go(func() {
		defer recovery.Handle(b.log, what, func(p *recovery.Panic) { b.fail(p) })
		if err := f(); err != nil {
			b.fail(err)
		}
	})
}

// try runs f in a goroutine with a timeout. It reports false without running f if too many calls
// are in progress.
func (b *background) try(timeout time.Duration, f func(ctx context.Context)) bool {
	select {
	case b.calls <- struct{}{}:
	default:
		return false
	}
	b.start("background call", func() error {
		defer func() { <-b.calls }()
		ctx, cancel := context.WithTimeout(b.ctx, timeout)
		defer cancel()
		f(ctx)
		return nil
	})
	return true
}

// close waits for the goroutines and returns the first failure, or else err.
func (b *background) close(err error) error {
	cause := context.Cause(b.ctx) // nil unless a goroutine failed or ctx ended
	b.fail(context.Canceled)
	b.all.Wait()
	if cause != nil {
		return cause
	}
	return err
}
