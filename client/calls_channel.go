package client

import "context"

// Channels returns the channels of the server, by name.
func (c *Client) Channels(ctx context.Context) ([]Channel, error) {
	page, err := get[Page[Channel]](ctx, c, "/v1/channels", nil)
	return page.Items, err
}
