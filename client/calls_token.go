package client

import (
	"context"
	"net/http"
	"net/url"

	"mailroom/api"
	"mailroom/auth"
)

// Accounts has the calls about who may do what: tokens, sessions, the users of chat channels, and budgets.
type Accounts struct{ c *Client }

// Accounts returns the calls about tokens and sessions.
func (c *Client) Accounts() Accounts { return Accounts{c} }

// CreateToken creates a token. Only the answer contains the secret. If the answer is lost, revoke the token and
// create it again. A name with a valid token is a conflict.
func (a Accounts) CreateToken(ctx context.Context, in api.NewToken) (api.CreatedToken, error) {
	return ask[api.CreatedToken](ctx, a.c, request{method: http.MethodPost, path: "/v1/tokens", body: in})
}

// Tokens returns all tokens, by name.
func (a Accounts) Tokens(ctx context.Context) ([]api.Token, error) {
	return Collect(ctx, func(ctx context.Context, q ListQuery) (api.Page[api.Token], error) {
		v := url.Values{}
		put(v, "cursor", q.Cursor)
		return get[api.Page[api.Token]](ctx, a.c, "/v1/tokens", v)
	}, ListQuery{})
}

// SetQuotas replaces the quotas of the tokens with this name. A quota that is not set gets the value of the server's
// limits.
func (a Accounts) SetQuotas(ctx context.Context, name string, q auth.Quotas) (api.Token, error) {
	return ask[api.Token](ctx, a.c, request{method: http.MethodPatch, path: path("v1", "tokens", name),
		body: api.TokenPatch{Quotas: q}})
}

// RevokeToken ends the rights of the token's holder, and the streams and waits that the holder has open. Threads and
// runs that belong to the token's name stay.
func (a Accounts) RevokeToken(ctx context.Context, name string) error {
	return a.c.call(ctx, request{method: http.MethodDelete, path: path("v1", "tokens", name)}, nil)
}

// EndToken revokes a token as RevokeToken does. If cancel is set, the same transaction cancels the open runs of the
// threads that belong to the token's name and were created before. If not, the answer says how many runs go on. A
// repeated call cancels runs that are left.
func (a Accounts) EndToken(ctx context.Context, name string, cancel bool) (api.RevokedToken, error) {
	return ask[api.RevokedToken](ctx, a.c, request{method: http.MethodPost, path: path("v1", "tokens", name, "revoke"),
		body: api.RevokeToken{Cancel: cancel}})
}
