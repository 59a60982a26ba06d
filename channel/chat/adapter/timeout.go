package adapter

import (
	"context"
	"time"

	"mailroom/channel/chat"
)

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
