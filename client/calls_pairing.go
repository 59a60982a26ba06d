package client

import (
	"context"
	"net/http"

	"mailroom/api"
)

// Pairings lists the paired users of chat channels and the pending requests, by
// channel.
func (c *Client) Pairings(ctx context.Context) ([]api.Pairing, error) {
	page, err := get[api.Page[api.Pairing]](ctx, c, "/v1/pairings", nil)
	return page.Items, err
}

// ApprovePairing approves a pairing code. A wrong code is not_found; several in a row
// lock pairing for an hour.
func (c *Client) ApprovePairing(ctx context.Context, in api.ApprovePairing) (api.Pairing, error) {
	return ask[api.Pairing](ctx, c, request{method: http.MethodPost, path: "/v1/pairings", body: in})
}

// RevokePairing revokes the access of a paired user, or rejects a pending request.
func (c *Client) RevokePairing(ctx context.Context, channel, user string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: path("v1", "pairings", channel, user)}, nil)
}
