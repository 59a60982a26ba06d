package client

import (
	"context"
	"net/http"

	"mailroom/api"
)

// CreateLink creates a link with which a browser can sign in once, with the rights of the caller.
func (a Accounts) CreateLink(ctx context.Context, in api.NewLink) (api.Link, error) {
	return ask[api.Link](ctx, a.c, request{method: http.MethodPost, path: "/v1/links", body: in})
}

// CreateLimitedToken makes a token with a part of the caller's rights. Only the answer contains the token's secret.
func (a Accounts) CreateLimitedToken(ctx context.Context, in api.NewLimitedToken) (api.CreatedToken, error) {
	return ask[api.CreatedToken](ctx, a.c, request{method: http.MethodPost, path: "/v1/tokens/limited", body: in})
}

// Session returns the rights of the caller.
func (a Accounts) Session(ctx context.Context) (api.Session, error) {
	return get[api.Session](ctx, a.c, "/v1/session", nil)
}
