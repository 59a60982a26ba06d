// Package adapter implements what chat platforms share: access control, conversation threads,
// commands that act at once, and replies split into messages of the platform's size. A
// [chat.Platform] implements one protocol and knows nothing of this.
//
// A chat has one conversation thread at a time; "/new" starts another. All conversations of a
// room deliver to the room's one delivery thread, which keeps replies in order. The adapter
// submits an event before it acknowledges it to the platform. A sent message is an effect of the
// delivery's run, with an idempotency key. Whether a message can arrive twice after a crash
// depends on what the platform makes of that key: see [chat.Platform].Find and
// [chat.Capabilities].DedupWindow.
package adapter

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/inbound"
	"mailroom/channel/chat/outbound"
	"mailroom/internal/recovery"
)

// Connect returns the [channel.Connect] of a chat channel whose platform dial connects to. The rate
// limits and the views of its rooms outlive a connection.
func Connect(o chat.Options, dial chat.Dialer) channel.Connect {
	o = withDefaults(o)
	limits, rooms := chat.NewLimiter(), outbound.NewRooms()
	return func(ctx context.Context, h *channel.Host) (channel.Adapter, error) {
		if err := o.Access.Validate(); err != nil {
			return nil, channel.Fatal(err)
		}
		p, caps, err := dial(ctx, h)
		if err != nil {
			return nil, err
		}
		p = timeoutPlatform{p}
		out := outbound.New(outbound.Options{Chat: o, Host: h, Platform: p, Caps: caps, Limiter: limits, Rooms: rooms})
		in := inbound.Options{Chat: o, Host: h, Platform: p, Caps: caps, Limiter: limits, Watch: out.Watch}
		return &adapter{host: h, platform: p, in: in, out: out}, nil
	}
}

func withDefaults(o chat.Options) chat.Options {
	o.Command = cmp.Or(o.Command, "mailroom")
	return o
}

// adapter is one connection. Its inbound half handles events and its outbound half sends
// deliveries; they communicate only through threads.
type adapter struct {
	// Set by Connect.
	host     *channel.Host
	platform chat.Platform
	in       inbound.Options
	out      *outbound.Outbound
}

// Receive implements [channel.Adapter].
func (a *adapter) Receive(ctx context.Context) error { return inbound.Receive(ctx, a.in) }

// Maintain implements [channel.Adapter]. It ends when one of its parts fails.
func (a *adapter) Maintain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	var errs [2]error
	for i, f := range []func(context.Context) error{a.platform.Maintain, a.out.Maintain} {
		parts.Go(func() {
			defer recovery.Handle(a.host.Log(), "channel maintenance", func(p *recovery.Panic) {
				errs[i] = p
				cancel()
			})
			if errs[i] = f(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	parts.Wait()
	return errors.Join(errs[:]...)
}

// Deliver implements [channel.Adapter].
func (a *adapter) Deliver(ctx context.Context, d channel.Delivery, s mailroom.Session) error {
	return a.out.Deliver(ctx, d, s)
}

// Close implements [channel.Adapter].
func (a *adapter) Close() error { return a.platform.Close() }

// callTimeout bounds a call that sends to a room or reads from it.
const callTimeout = 30 * time.Second

// timeoutPlatform bounds the calls of a platform that concern a room. The platform must return
// when the context ends.
type timeoutPlatform struct{ chat.Platform }

func (p timeoutPlatform) Send(ctx context.Context, to chat.Room, m chat.Message, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.Platform.Send(ctx, to, m, key)
}

func (p timeoutPlatform) Edit(ctx context.Context, to chat.Room, id string, m chat.Message) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.Platform.Edit(ctx, to, id, m)
}

func (p timeoutPlatform) Find(ctx context.Context, to chat.Room, key string, m chat.Message) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.Platform.Find(ctx, to, key, m)
}

func (p timeoutPlatform) Typing(ctx context.Context, to chat.Room) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.Platform.Typing(ctx, to)
}
