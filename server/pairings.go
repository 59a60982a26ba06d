package server

import (
	"context"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
)

// Pairings are the users that may use chat channels.
type Pairings interface {
	All(ctx context.Context) ([]api.Pairing, error)
	Approve(ctx context.Context, in api.ApprovePairing, by string) (api.Pairing, error)
	Revoke(ctx context.Context, channel, user string) error
}

// registerPairings registers the operations on pairings.
func (rt router) registerPairings() {
	s := rt.server
	handle(rt, rt.operation(auth.PermissionAdmin, "GET /v1/pairings", "list-pairings", "List the approved users of chat channels, and pending pairing requests"), s.listPairings)
	handle(rt, rt.operation(auth.PermissionAdmin, "POST /v1/pairings", "approve-pairing", "Approve a pairing code"), s.approvePairing)
	ending := rt.operation(auth.PermissionAdmin, "DELETE /v1/pairings/{channel}/{user}", "revoke-pairing", "Revoke a user's access, or refuse a pending request")
	ending.DefaultStatus = 204
	handle(rt, ending, s.revokePairing)
}

func (s *Server) listPairings(ctx context.Context, _ *empty) (*body[api.Page[api.Pairing]], error) {
	out := api.Page[api.Pairing]{Items: []api.Pairing{}}
	if s.options.Pairings == nil {
		return &body[api.Page[api.Pairing]]{out}, nil
	}
	all, err := s.options.Pairings.All(ctx)
	out.Items = append(out.Items, all...)
	return &body[api.Page[api.Pairing]]{out}, err
}

type approvePairingInput struct{ Body api.ApprovePairing }

func (s *Server) approvePairing(ctx context.Context, in *approvePairingInput) (*body[api.Pairing], error) {
	if s.options.Pairings == nil {
		return nil, noPairings()
	}
	p, err := s.options.Pairings.Approve(ctx, in.Body, requestOf(ctx).who.Name)
	return &body[api.Pairing]{p}, err
}

type revokePairingInput struct {
	Channel string `path:"channel" doc:"Name of a channel."`
	User    string `path:"user" doc:"Id of a user on its platform."`
}

func (s *Server) revokePairing(ctx context.Context, in *revokePairingInput) (*empty, error) {
	if s.options.Pairings == nil {
		return nil, noPairings()
	}
	return nil, s.options.Pairings.Revoke(ctx, in.Channel, in.User)
}

func noPairings() error {
	return mailroom.Errorf(mailroom.CodeNotFound, "this server has no chat channel")
}
