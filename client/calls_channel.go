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

// ResumeChannel has a channel that is not connected tried now, as if nothing had
// failed before, and returns how it is. To a connected one it does nothing.
func (c *Client) ResumeChannel(ctx context.Context, name string) (api.Channel, error) {
	return ask[api.Channel](ctx, c, request{method: http.MethodPost, path: path("v1", "channels", name, "resume")})
}
