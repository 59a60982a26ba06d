package client

import (
	"context"
	"net/http"

	"mailroom/api"
)

// Pairings lists the paired users of chat channels and the pending requests, by
// channel.
func (a Accounts) Pairings(ctx context.Context) ([]api.Pairing, error) {
	page, err := get[api.Page[api.Pairing]](ctx, a.c, "/v1/pairings", nil)
	return page.Items, err
}

// ApprovePairing approves a pairing code. A wrong code is not_found; several in a row
// lock pairing for an hour.
func (a Accounts) ApprovePairing(ctx context.Context, in api.ApprovePairing) (api.Pairing, error) {
	return ask[api.Pairing](ctx, a.c, request{method: http.MethodPost, path: "/v1/pairings", body: in})
}

// RevokePairing revokes the access of a paired user, or rejects a pending request.
func (a Accounts) RevokePairing(ctx context.Context, channel, user string) error {
	return a.c.call(ctx, request{method: http.MethodDelete, path: path("v1", "pairings", channel, user)}, nil)
}
