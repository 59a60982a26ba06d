package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
)

// lifecycle ends streams, waits and sockets at shutdown.
type lifecycle struct {
	closing context.Context // ends at shutdown: streams and waits end, and new ones are refused
	close   context.CancelFunc

	// mu is held while a socket is added to sockets and while closing ends, so that no socket is
	// added after closing has ended.
	mu      sync.Mutex
	sockets sync.WaitGroup
}

func newLifecycle() *lifecycle {
	closing, end := context.WithCancel(context.Background())
	return &lifecycle{closing: closing, close: end}
}

// shutDown ends closing.
func (l *lifecycle) shutDown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
}

// addSocket counts a socket, so that shutdown waits for it.
func (l *lifecycle) addSocket() (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing.Err() != nil {
		return nil, errShutdown()
	}
	l.sockets.Add(1)
	return l.sockets.Done, nil
}

// waitForSockets waits for open sockets, which http.Server no longer tracks after the upgrade. They
// are closing already; only a request that hangs can take long. It returns false if ctx ends first.
func (l *lifecycle) waitForSockets(ctx context.Context, log *slog.Logger) bool {
	ended := make(chan struct{})
	go func() {
		defer recovery.Log(log, "wait for sockets")
		l.sockets.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// authorizedContext derives a context that also ends when the server shuts down and when the
// request's token is revoked. context.Cause returns which.
func (l *lifecycle) authorizedContext(ctx context.Context) (context.Context, context.CancelFunc) {
	grant := requestOf(ctx).grant
	ctx, cancel := context.WithCancelCause(ctx)
	closing := context.AfterFunc(l.closing, func() { cancel(errShutdown()) })
	revoked := context.AfterFunc(grant.ctx, func() { cancel(context.Cause(grant.ctx)) })
	return ctx, func() { closing(); revoked(); cancel(nil) }
}

func errShutdown() error {
	return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "the server is shutting down", RetryAfter: time.Second}
}
