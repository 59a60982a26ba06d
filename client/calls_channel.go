package client

import (
	"context"
	"net/http"

	"mailroom/api"
)

// Channels returns the channels of the server, by name.
func (c *Client) Channels(ctx context.Context) ([]api.Channel, error) {
	page, err := get[api.Page[api.Channel]](ctx, c, "/v1/channels", nil)
	return page.Items, err
}

// ResumeChannel reconnects a channel now, with its failures forgotten, and returns its
// state. It does not affect a connected channel.
func (c *Client) ResumeChannel(ctx context.Context, name string) (api.Channel, error) {
	return ask[api.Channel](ctx, c, request{method: http.MethodPost, path: path("v1", "channels", name, "resume")})
}
