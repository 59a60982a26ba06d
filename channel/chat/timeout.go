package chat

import (
	"context"
	"time"
)

// callTimeout bounds a call that sends to a room or reads from it.
const callTimeout = 30 * time.Second

// timeoutPlatform bounds the calls of a platform that concern a room. The platform must return
// when the context ends.
type timeoutPlatform struct{ Platform }

func (p timeoutPlatform) Send(ctx context.Context, to Room, m Message, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.Platform.Send(ctx, to, m, key)
}

func (p timeoutPlatform) Edit(ctx context.Context, to Room, id string, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.Platform.Edit(ctx, to, id, m)
}

func (p timeoutPlatform) Find(ctx context.Context, to Room, key string, m Message) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.Platform.Find(ctx, to, key, m)
}

func (p timeoutPlatform) Typing(ctx context.Context, to Room) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.Platform.Typing(ctx, to)
}
