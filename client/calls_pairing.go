package client

import (
	"context"
	"net/http"

	"mailroom/api"
)

// Pairings returns who was let in to talk through chat platforms, and who waits for
// it, by channel.
func (c *Client) Pairings(ctx context.Context) ([]api.Pairing, error) {
	page, err := get[api.Page[api.Pairing]](ctx, c, "/v1/pairings", nil)
	return page.Items, err
}

// ApprovePairing lets in who has a code. A wrong one is not_found, and counts: after
// some in a row nobody is let in for an hour.
func (c *Client) ApprovePairing(ctx context.Context, in api.ApprovePairing) (api.Pairing, error) {
	return ask[api.Pairing](ctx, c, request{method: http.MethodPost, path: "/v1/pairings", body: in})
}

// RevokePairing lets somebody talk no longer who was let in with a code, or refuses
// who waits for it.
func (c *Client) RevokePairing(ctx context.Context, channel, user string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: path("v1", "pairings", channel, user)}, nil)
}
