package engine_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"mailroom"
	"mailroom/bus"
)

// wireEnd is one of two ends of a wire within the test.
type wireEnd struct{ hints, peer chan bus.Hint }

func (w wireEnd) Send(hints ...bus.Hint) {
	for _, h := range hints {
		w.peer <- h
	}
}

func (w wireEnd) Run(ctx context.Context, receive func(bus.Hint)) error {
	w.Send(bus.Hint{Kind: bus.HintLook})
	for {
		select {
		case h := <-w.hints:
			receive(h)
		case <-ctx.Done():
			return nil
		}
	}
}

// relay connects two processes until the returned function is called.
func (h *fixture) relay(a, b *process) (cut func()) {
	one, two := make(chan bus.Hint, 100), make(chan bus.Hint, 100)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	for p, w := range map[*process]wireEnd{a: {one, two}, b: {two, one}} {
		r := bus.NewRelay(p.bus, w, func(string) {}, slog.New(slog.DiscardHandler))
		go func() { ended <- r.Run(ctx) }()
	}
	h.wait(time.Millisecond)
	return func() {
		cancel()
		h.must(<-ended)
		h.must(<-ended)
	}
}

// TestAHintBringsAStopFromAnotherServer cancels at one server what the other one runs. Its renewal is
// an hour away.
func TestAHintBringsAStopFromAnotherServer(t *testing.T) {
	localOnly(t, func(h *fixture) {
		causes := make(chan error, 1)
		o := serving(func(ctx context.Context, _ mailroom.Session) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		})
		o.Lease, o.Renew = 10*time.Hour, time.Hour
		p := h.elsewhere(o)
		cut := h.relay(h.process, p)
		out := h.send("t", "hello")
		h.wait(3 * time.Second)
		h.status(out.Run, mailroom.StatusRunning)
		h.cancel(out)
		h.wait(time.Second)
		if r := h.status(out.Run, mailroom.StatusCancelled); r.Reason != mailroom.ReasonCancelled {
			t.Errorf("reason %s, want %s", r.Reason, mailroom.ReasonCancelled)
		}
		if cause := <-causes; cause != mailroom.ErrStopped {
			t.Errorf("cause %v, want %v", cause, mailroom.ErrStopped)
		}
		cut()
	})
}
