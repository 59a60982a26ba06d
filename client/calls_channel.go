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

// ResumeChannel makes a channel reconnect now and forget its failures, and returns its state. A connected channel is
// not changed.
func (c *Client) ResumeChannel(ctx context.Context, name string) (api.Channel, error) {
	return ask[api.Channel](ctx, c, request{method: http.MethodPost, path: path("v1", "channels", name, "resume")})
}
