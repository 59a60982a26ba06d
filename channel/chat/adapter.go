package chat

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/internal/recovery"
)

// Options configure a chat channel of one agent. Agent is required.
type Options struct {
	Agent  string // agent of the channel's runs
	Access AccessPolicy
	// Command is how the operator calls this program, for hints in messages. "" means "mailroom".
	Command string
	// Files stores attachments. If it is nil, agents get the platform's URI of a file.
	Files FileStore
	// Follow streams the progress of runs, for previews and typing indicators. If it is nil, only
	// replies are sent.
	Follow Follower
	// Commits announces new entries, so that a question decided elsewhere is redrawn at once. If it
	// is nil, open questions are checked once a minute.
	Commits *bus.Bus
	// Previews shows a text while the agent writes it, in a message that is edited.
	Previews bool
}

// adapter is one connection. Its inbound half handles events and its outbound half sends
// deliveries; they communicate only through threads.
type adapter struct {
	// Set by Connect.
	options  Options
	host     *channel.Host
	platform Platform
	caps     Capabilities
	out      *outbound
}

// Connect returns the [channel.Connect] of a chat channel whose platform dial connects to.
func Connect(o Options, dial Dialer) channel.Connect {
	if o.Command == "" {
		o.Command = "mailroom"
	}
	all := newShared()
	return func(ctx context.Context, h *channel.Host) (channel.Adapter, error) {
		if err := o.Access.validate(); err != nil {
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
