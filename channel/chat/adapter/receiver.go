package adapter

import (
	"context"
	"errors"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/inbound"
)

// ConnectReceiver returns the [channel.Connect] of a runner that only receives. Such a runner runs beside the
// channel, also on other servers, so two of them may handle the same event at the same time; the keys of the event's
// steps make each step happen once. A receiver shows no previews and sends no deliveries. It is for platforms whose
// events need neither a saved position nor downloads, because only one server at a time keeps these.
func ConnectReceiver(o chat.Options, dial chat.Dialer) channel.Connect {
	o = withDefaults(o)
	limits := chat.NewLimiter()
	return func(ctx context.Context, h *channel.Host) (channel.Adapter, error) {
		if err := o.Access.Validate(); err != nil {
			return nil, channel.Fatal(err)
		}
		p, caps, err := dial(ctx, h)
		if err != nil {
			return nil, err
		}
		p = timeoutPlatform{p}
		return &receiver{platform: p, in: inbound.Options{
			Chat: o, Host: h, Platform: p, Caps: caps, Limiter: limits, Watch: func(string, chat.Room, int64) {},
		}}, nil
	}
}

// receiver is one connection that only receives.
type receiver struct {
	// Set by ConnectReceiver.
	platform chat.Platform
	in       inbound.Options
}

// Receive implements [channel.Adapter].
func (r *receiver) Receive(ctx context.Context) error { return inbound.Receive(ctx, r.in) }

// Maintain implements [channel.Adapter].
func (r *receiver) Maintain(ctx context.Context) error { return r.platform.Maintain(ctx) }

// Deliver implements [channel.Adapter]. It is never called, because no engine has the agent of a receiver.
func (r *receiver) Deliver(context.Context, channel.Delivery, mailroom.Session) error {
	return errors.New("a receiver sends no deliveries")
}

// Close implements [channel.Adapter].
func (r *receiver) Close() error { return r.platform.Close() }
