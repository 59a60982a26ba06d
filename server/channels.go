package server

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/api"
)

// Channels is what the server asks of the connections to platforms.
type Channels interface {
	// All tells about each of them, by name.
	All() []api.Channel
	// Resume has the one of that name tried now; false: there is none.
	Resume(name string) bool
}

// registerChannels registers what tells about the connections to platforms.
func (rt router) registerChannels() {
	s := rt.server
	handle(rt, rt.operation(mailroom.PermissionRead, "GET /v1/channels", "list-channels", "All channels, by name; what is known about them is for the scopes metrics and admin"),
		func(ctx context.Context, _ *empty) (*body[api.Page[api.Channel]], error) {
			return &body[api.Page[api.Channel]]{api.Page[api.Channel]{Items: s.channelsFor(requestOf(ctx).who)}}, nil
		})
	handle(rt, rt.operation(mailroom.PermissionAdmin, "POST /v1/channels/{name}/resume", "resume-channel", "Try a channel now that is not connected, as if nothing had failed before"),
		s.resumeChannel)
}

// channelsFor are the channels as a token may know of them. Errors, cursors and
// counts tell about rooms and people of others, so they are for those who may measure
// the work of all; the others know whether a channel works.
func (s *Server) channelsFor(who *mailroom.Token) []api.Channel {
	all := append([]api.Channel{}, s.allChannels()...)
	if who.Has(mailroom.PermissionMeasure) {
		return all
	}
	for i, c := range all {
		all[i] = api.Channel{Name: c.Name, Kind: c.Kind, State: c.State}
	}
	return all
}

func (s *Server) allChannels() []api.Channel {
	if s.options.Channels == nil {
		return nil
	}
	return s.options.Channels.All()
}

type resumeChannelInput struct {
	Name string `path:"name" doc:"Name of a channel."`
	EmptyBody
}

func (s *Server) resumeChannel(_ context.Context, in *resumeChannelInput) (*body[api.Channel], error) {
	if s.options.Channels == nil || !s.options.Channels.Resume(in.Name) {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no channel %q", truncate(in.Name))
	}
	all := s.allChannels()
	i := slices.IndexFunc(all, func(c api.Channel) bool { return c.Name == in.Name })
	if i < 0 { // it has gone with a change of the configuration
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no channel %q", truncate(in.Name))
	}
	return &body[api.Channel]{all[i]}, nil
}
