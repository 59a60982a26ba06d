package request

import (
	"context"

	"mailroom"
	"mailroom/auth"
)

type callerKey struct{}

// WithCaller returns the context of a request. caller returns the token that the request acts for,
// in its current state: the token is checked once more when the body has arrived.
func WithCaller(ctx context.Context, caller func() *auth.Token) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerOf returns the token that the request of ctx acts for. Outside of a request it is one without rights.
func CallerOf(ctx context.Context) *auth.Token {
	if caller, ok := ctx.Value(callerKey{}).(func() *auth.Token); ok {
		return caller()
	}
	return &auth.Token{}
}

// ErrRevoked returns the refusal of a request whose token was revoked.
func ErrRevoked() error {
	return mailroom.Errorf(mailroom.CodeUnauthenticated, "the token was revoked")
}
