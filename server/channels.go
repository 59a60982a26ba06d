package server

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/client"
)

// Channels is what the server asks of the connections to platforms.
type Channels interface {
	// All tells about each of them, by name.
	All() []client.Channel
	// Resume has the one of that name tried now; false: there is none.
	Resume(name string) bool
}

// channels registers what tells about the connections to platforms.
func (f face) channels() {
	s := f.server
	handle(f, f.op(mailroom.MayRead, "GET /v1/channels", "list-channels", "All channels, by name, and what is known about them"),
		func(context.Context, *none) (*body[client.Page[client.Channel]], error) {
			return &body[client.Page[client.Channel]]{client.Page[client.Channel]{Items: append([]client.Channel{}, s.allChannels()...)}}, nil
		})
	handle(f, f.op(mailroom.MayAdmin, "POST /v1/channels/{name}/resume", "resume-channel", "Try a channel now that is not connected, as if nothing had failed before"),
		s.resumeChannel)
}

func (s *Server) allChannels() []client.Channel {
	if s.options.Channels == nil {
		return nil
	}
	return s.options.Channels.All()
}

type resumeChannelInput struct {
	Name string `path:"name" doc:"Name of a channel."`
	Nothing
}

func (s *Server) resumeChannel(_ context.Context, in *resumeChannelInput) (*body[client.Channel], error) {
	if s.options.Channels == nil || !s.options.Channels.Resume(in.Name) {
		return nil, mailroom.Errorf(mailroom.NotFound, "no channel %q", short(in.Name))
	}
	all := s.allChannels()
	i := slices.IndexFunc(all, func(c client.Channel) bool { return c.Name == in.Name })
	return &body[client.Channel]{all[i]}, nil
}
