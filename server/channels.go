package server

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/invalid"
)

// Channels are the connections to platforms.
type Channels interface {
	// All returns the state of each channel, by name.
	All() []api.Channel
	// Resume reconnects the channel now. It returns false for an unknown name.
	Resume(name string) bool
}

// registerChannels registers the operations on channels.
func (rt router) registerChannels() {
	s := rt.server
	handle(rt, rt.operation(auth.PermissionRead, "GET /v1/channels", "list-channels", "List channels, by name; details need the scope metrics or admin"),
		func(ctx context.Context, _ *empty) (*body[api.Page[api.Channel]], error) {
			return &body[api.Page[api.Channel]]{api.Page[api.Channel]{Items: s.channelsFor(requestOf(ctx).who)}}, nil
		})
	handle(rt, rt.operation(auth.PermissionAdmin, "POST /v1/channels/{name}/resume", "resume-channel", "Reconnect a channel now and reset its failures"),
		s.resumeChannel)
}

// channelsFor returns the channels as a token may see them. Errors, cursors and counts reveal rooms
// and users of others, so they need [mailroom.PermissionMeasure]; other tokens see the state only.
func (s *Server) channelsFor(who *auth.Token) []api.Channel {
	all := append([]api.Channel{}, s.allChannels()...)
	if who.Has(auth.PermissionMeasure) {
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
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no channel %q", invalid.Truncate(in.Name))
	}
	all := s.allChannels()
	i := slices.IndexFunc(all, func(c api.Channel) bool { return c.Name == in.Name })
	if i < 0 { // a change of the configuration removed it
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no channel %q", invalid.Truncate(in.Name))
	}
	return &body[api.Channel]{all[i]}, nil
}
