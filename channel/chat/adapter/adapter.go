package adapter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/internal/recovery"
)

// adapter is one connection. Its inbound half handles events and its outbound half sends
// deliveries; they communicate only through threads.
type adapter struct {
	// Set by Connect.
	options  chat.Options
	host     *channel.Host
	platform chat.Platform
	caps     chat.Capabilities
	out      *outbound
}

// Connect returns the [channel.Connect] of a chat channel whose platform dial connects to.
func Connect(o chat.Options, dial chat.Dialer) channel.Connect {
	if o.Command == "" {
		o.Command = "mailroom"
	}
	all := newShared()
	return func(ctx context.Context, h *channel.Host) (channel.Adapter, error) {
		if err := o.Access.Validate(); err != nil {
			return nil, channel.Fatal(err)
		}
		p, caps, err := dial(ctx, h)
		if err != nil {
			return nil, err
		}
		a := &adapter{options: o, host: h, platform: timeoutPlatform{p}, caps: caps}
		a.out = newOutbound(a, all)
		return a, nil
	}
}

// Receive implements [channel.Adapter].
func (a *adapter) Receive(ctx context.Context) error {
	r := newReceiver(ctx)
	in := &inbound{adapter: a, receiver: r}
	at, err := in.loadPosition(ctx)
	if err != nil {
		return err
	}
	if err := r.backlog.resume(in); err != nil {
		return r.close(err)
	}
	return r.close(a.platform.Receive(r.ctx, at, in.receiveEvent))
}

// Maintain implements [channel.Adapter]. It ends when one of its parts fails.
func (a *adapter) Maintain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	var errs [2]error
	for i, f := range []func(context.Context) error{a.platform.Maintain, a.out.maintain} {
		parts.Go(func() {
			defer recovery.Log(a.out.host.Log(), "channel maintenance")
			if errs[i] = catchPanic(func() error { return f(ctx) }); errs[i] != nil {
				cancel()
			}
		})
	}
	parts.Wait()
	return errors.Join(errs[:]...)
}

// catchPanic turns a panic in a background goroutine into an error.
func catchPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// Deliver implements [channel.Adapter].
func (a *adapter) Deliver(ctx context.Context, d channel.Delivery, s mailroom.Session) error {
	return a.out.deliver(ctx, d, s)
}

// Close implements [channel.Adapter].
func (a *adapter) Close() error { return a.platform.Close() }
