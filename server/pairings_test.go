package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server"
)

// fakePairings has fixed pairings, a pending one with the code "CODE", and one with the code "FULL" without room.
type fakePairings struct {
	all      []api.Pairing
	approved []api.ApprovePairing
	by       string
	revoked  [][2]string
}

func (p *fakePairings) All(context.Context) ([]api.Pairing, error) { return p.all, nil }

func (p *fakePairings) Approve(_ context.Context, in api.ApprovePairing, by string) (api.Pairing, error) {
	p.approved, p.by = append(p.approved, in), by
	if in.Code == "FULL" {
		return api.Pairing{}, mailroom.Errorf(mailroom.CodeConflict, "too many users are paired")
	}
	if in.Code != "CODE" {
		return api.Pairing{}, mailroom.Errorf(mailroom.CodeNotFound, "no such code")
	}
	return p.all[0], nil
}

func (p *fakePairings) Revoke(_ context.Context, channel, user string) error {
	p.revoked = append(p.revoked, [2]string{channel, user})
	return nil
}

func TestAPairingCodeIsApproved(t *testing.T) {
	p := &fakePairings{all: []api.Pairing{{Channel: "tg", User: "@u:example.org/x", Name: "U", State: api.PairingWaits,
		Tier: "stranger", Since: time.Unix(1, 0).UTC()}}}
	f := start(t, func(o *server.Options) { o.Parts.Pairings = p })
	all, err := f.client.Accounts().Pairings(t.Context())
	if diff := cmp.Diff(p.all, all); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	in := api.ApprovePairing{Code: "CODE", Admin: true, Channel: "tg"}
	if got, err := f.client.Accounts().ApprovePairing(t.Context(), in); err != nil || got.User != p.all[0].User {
		t.Errorf("got %+v, %v", got, err)
	}
	if diff := cmp.Diff([]api.ApprovePairing{in}, p.approved); diff != "" || p.by != auth.Operator {
		t.Errorf("by %q: %s", p.by, diff)
	}
	// A pairing would not end with a limited token.
	f.wantCode("a limited token", f.limited(`"read","admin"`).call("POST /v1/pairings", `{"code":"CODE","admin":true}`),
		403, mailroom.CodeForbidden)
	if _, err := f.client.Accounts().ApprovePairing(t.Context(),
		api.ApprovePairing{Code: "other"}); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("a wrong code: %v", err)
	}
	if _, err := f.client.Accounts().ApprovePairing(t.Context(),
		api.ApprovePairing{}); mailroom.CodeOf(err) != mailroom.CodeInvalid {
		t.Errorf("no code: %v", err)
	}
	if err := f.client.Accounts().RevokePairing(t.Context(), "tg", "@u:example.org/x"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([][2]string{{"tg", "@u:example.org/x"}}, p.revoked); diff != "" {
		t.Error(diff)
	}
}

func TestPairingWithoutChatChannelsIsNotFound(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Parts.Pairings = nil })
	if all, err := f.client.Accounts().Pairings(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("got %v, %v", all, err)
	}
	_, err := f.client.Accounts().ApprovePairing(t.Context(), api.ApprovePairing{Code: "CODE"})
	for what, err := range map[string]error{"approve": err,
		"revoke": f.client.Accounts().RevokePairing(t.Context(), "tg", "u")} {
		if mailroom.CodeOf(err) != mailroom.CodeNotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
}
