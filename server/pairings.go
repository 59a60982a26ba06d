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

// pairingHandlers serve pairings.
type pairingHandlers struct{ pairings Pairings } // nil: the server has no pairing

func (h *pairingHandlers) listPairings(ctx context.Context, _ *empty) (*body[api.Page[api.Pairing]], error) {
	out := api.Page[api.Pairing]{Items: []api.Pairing{}}
	if h.pairings == nil {
		return &body[api.Page[api.Pairing]]{out}, nil
	}
	all, err := h.pairings.All(ctx)
	out.Items = append(out.Items, all...)
	return &body[api.Page[api.Pairing]]{out}, err
}

type approvePairingInput struct{ Body api.ApprovePairing }

func (h *pairingHandlers) approvePairing(ctx context.Context, in *approvePairingInput) (*body[api.Pairing], error) {
	if h.pairings == nil {
		return nil, noPairings()
	}
	who := requestOf(ctx).who
	if who.Terms.Kind == auth.KindLimited { // a pairing does not end with the token that approved it
		return nil, mailroom.Errorf(mailroom.CodeForbidden,
			"a limited token cannot pair a user, who may write after its end: use token %s itself", who.Name)
	}
	p, err := h.pairings.Approve(ctx, in.Body, who.Name)
	return &body[api.Pairing]{p}, err
}

type revokePairingInput struct {
	Channel string `path:"channel" doc:"Name of a channel."`
	User    string `path:"user" doc:"Id of a user on its platform."`
}

func (h *pairingHandlers) revokePairing(ctx context.Context, in *revokePairingInput) (*empty, error) {
	if h.pairings == nil {
		return nil, noPairings()
	}
	return nil, h.pairings.Revoke(ctx, in.Channel, in.User)
}

func noPairings() error {
	return mailroom.Errorf(mailroom.CodeNotFound, "this server has no chat channel")
}
