package server

import (
	"context"

	"mailroom"
	"mailroom/client"
)

// channels registers what tells about the connections to platforms.
func (f face) channels() {
	s := f.server
	handle(f, f.op(mailroom.MayRead, "GET /v1/channels", "list-channels", "All channels, by name, and what is known about them"),
		func(context.Context, *none) (*body[client.Page[client.Channel]], error) {
			out := client.Page[client.Channel]{Items: []client.Channel{}}
			if s.options.Channels != nil {
				out.Items = append(out.Items, s.options.Channels()...)
			}
			return &body[client.Page[client.Channel]]{out}, nil
		})
}
