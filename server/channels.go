package server

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/server/internal/request"
)

// Channels are the connections to platforms.
type Channels interface {
	// All returns the state of each channel, by name.
	All() []api.Channel
	// Resume reconnects the channel now. It returns false for an unknown name.
	Resume(name string) bool
}

// channelHandlers serve the state of channels.
type channelHandlers struct {
	channels Channels // nil: the server has no channels
	ledger   Accounts
}

func (h *channelHandlers) listChannels(ctx context.Context, _ *empty) (*body[api.Page[api.Channel]], error) {
	return &body[api.Page[api.Channel]]{api.Page[api.Channel]{Items: h.channelsFor(requestOf(ctx).who)}}, nil
}

// channelsFor returns the channels as a token may see them. Errors, cursors and counts reveal rooms
// and users of others, so they need [auth.PermissionMeasure]; other tokens see the state only.
func (h *channelHandlers) channelsFor(who *auth.Token) []api.Channel {
	all := append([]api.Channel{}, h.allChannels()...)
	if who.Has(auth.PermissionMeasure) {
		return all
	}
	for i, c := range all {
		all[i] = api.Channel{Name: c.Name, Kind: c.Kind, State: c.State}
	}
	return all
}

func (h *channelHandlers) allChannels() []api.Channel {
	if h.channels == nil {
		return nil
	}
	return h.channels.All()
}

type resumeChannelInput struct {
	Name string `path:"name" doc:"Name of a channel."`
	EmptyBody
}

func (h *channelHandlers) resumeChannel(ctx context.Context, in *resumeChannelInput) (*body[api.Channel], error) {
	if h.channels == nil || !h.channels.Resume(in.Name) {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no channel %q", request.Truncate(in.Name))
	}
	all := h.allChannels()
	i := slices.IndexFunc(all, func(c api.Channel) bool { return c.Name == in.Name })
	switch {
	case i < 0: // a change of the configuration removed it
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no channel %q", request.Truncate(in.Name))
	case all[i].State == api.ChannelStandby:
		where := "run by another server"
		if all[i].Reason != nil {
			where = *all[i].Reason
		}
		return nil, mailroom.Errorf(mailroom.CodeConflict, "channel %q is %s: resume it there", in.Name, where)
	}
	err := h.ledger.Record(ctx, ledger.Action{Name: "channel.resume", ObjectKind: "channel", Object: in.Name})
	return &body[api.Channel]{all[i]}, err
}
