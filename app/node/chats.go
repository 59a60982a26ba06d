package node

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/api"
	"mailroom/app/config"
	"mailroom/channel/chat"
	"mailroom/ledger"
)

// pairings implements [server.Pairings] for the chat channels, sorted by channel.
type pairings []chat.PairingOperator

func newPairings(c *config.Config, l *ledger.Ledger) (all pairings) {
	for _, name := range c.ChannelNames() {
		if c.Channels[name].Kind.Chat {
			all = append(all, chat.PairingOperator{Ledger: l, Channel: name})
		}
	}
	return all
}

// All implements [server.Pairings].
func (d pairings) All(ctx context.Context) ([]api.Pairing, error) {
	var out []api.Pairing
	for _, operator := range d {
		people, err := operator.List(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range people {
			out = append(out, showPairing(p))
		}
	}
	return out, nil
}

// Approve implements [server.Pairings]. An unknown code counts as a wrong attempt in
// each channel that it may belong to.
func (d pairings) Approve(ctx context.Context, in api.ApprovePairing, by string) (api.Pairing, error) {
	err := error(mailroom.Errorf(mailroom.CodeNotFound, "no chat channel %q", in.Channel))
	if in.Channel == "" {
		err = mailroom.Errorf(mailroom.CodeNotFound, "this server has no chat channel")
	}
	asked := slices.DeleteFunc(slices.Clone(d), func(operator chat.PairingOperator) bool {
		return in.Channel != "" && in.Channel != operator.Channel
	})
	for _, operator := range asked {
		has, err := operator.HasCode(ctx, in.Code)
		if err != nil {
			return api.Pairing{}, err
		}
		if has {
			asked = pairings{operator}
			break
		}
	}
	for _, operator := range asked {
		var p chat.PairingPerson
		if p, err = operator.Approve(ctx, in.Code, in.Admin, by); mailroom.CodeOf(err) != mailroom.CodeNotFound {
			return showPairing(p), err
		}
	}
	return api.Pairing{}, err
}

// Revoke implements [server.Pairings].
func (d pairings) Revoke(ctx context.Context, channel, user string) error {
	for _, operator := range d {
		if operator.Channel == channel {
			return operator.Revoke(ctx, user)
		}
	}
	return mailroom.Errorf(mailroom.CodeNotFound, "no chat channel %q", channel)
}

func showPairing(p chat.PairingPerson) api.Pairing {
	out := api.Pairing{
		Channel: p.Channel, User: p.User, Name: p.Name, State: api.Paired, Tier: chat.TierGuest.String(),
		Since: p.Since, Until: timeOrNil(p.Until), By: stringOrNil(p.By),
	}
	if p.Admin {
		out.Tier = chat.TierAdmin.String()
	}
	if p.Waits {
		out.State, out.Tier = api.PairingWaits, chat.TierStranger.String()
	}
	return out
}
