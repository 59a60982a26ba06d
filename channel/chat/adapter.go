package chat

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"mailroom"
	"mailroom/channel"
	"mailroom/internal/recovery"
)

// Options are how people talk to one agent through a platform. Agent is needed.
type Options struct {
	Agent  string // that reads what is said
	Access AccessPolicy
	// Command is how a person on the server's machine calls this program, to be told
	// how something is done there; "" is "mailroom".
	Command string
	// Files keeps what people send along; nil: nothing is kept, and agents get the
	// platform's own name of it.
	Files FileStore
	// Follow shows what the agent does while it does it; nil: only its replies are sent.
	Follow Follower
	// Previews shows also what it writes, in a message that is edited.
	Previews bool
}

// adapter is one connection. What arrives is taken by the inbound half, what is
// delivered by the outbound half; neither has to do with the other but through the
// threads.
type adapter struct {
	// Set by Connect.
	options  Options
	host     *channel.Host
	platform Platform
	caps     Capabilities
	out      *outbound
}

// Connect makes the adapters of a channel whose platform is reached by dial.
func Connect(o Options, dial Dialer) channel.Connect {
	if o.Command == "" {
		o.Command = "mailroom"
	}
	all := newShared()
	return func(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
		if err := o.Access.validate(); err != nil {
			return nil, channel.Fatal(err)
		}
		p, traits, err := dial(ctx, l)
		if err != nil {
			return nil, err
		}
		a := &adapter{options: o, host: l, platform: timeoutPlatform{p}, caps: traits}
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

// Maintain implements [channel.Adapter]: it is over when a part of it fails.
func (a *adapter) Maintain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	var errs [2]error
	for i, f := range []func(context.Context) error{a.platform.Maintain, a.out.maintain} {
		parts.Go(func() {
			defer recovery.Log(a.out.host.Log(), "a part of a channel")
			if errs[i] = catchPanic(func() error { return f(ctx) }); errs[i] != nil {
				cancel()
			}
		})
	}
	parts.Wait()
	return errors.Join(errs[:]...)
}

// catchPanic makes a panic an error: what runs beside must not end the process.
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
