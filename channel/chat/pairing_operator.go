package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/internal/digest"
	"mailroom/internal/display"
	"mailroom/ledger"
)

// pairingKey names the stored pairing state of a channel.
const pairingKey = "people"

// PairingOperator manages the paired users of a channel.
type PairingOperator struct {
	Ledger  channel.Ledger
	Channel string
}

// PairingPerson is a paired user or one with an open request. Names are the users' own.
type PairingPerson struct {
	Channel string
	User    string // id at the platform
	Name    string
	Admin   bool
	Waits   bool      // a code waits for approval
	Since   time.Time // time of the approval or the request
	Until   time.Time // expiry of the code; zero for a paired user
	By      string    // name of the token with which the code was approved
}

// List returns the paired users and then the open requests.
func (d PairingOperator) List(ctx context.Context) ([]PairingPerson, error) {
	p, err := d.load(ctx)
	if err != nil {
		return nil, err
	}
	var all []PairingPerson
	for _, one := range p.Paired {
		all = append(all, PairingPerson{
			Channel: d.Channel, User: one.User, Name: one.Name, Admin: one.Admin, Since: one.At, By: one.By,
		})
	}
	for _, r := range p.Requests {
		all = append(all, PairingPerson{
			Channel: d.Channel, User: r.User, Name: r.Name, Waits: true, Since: r.At, Until: r.At.Add(pairingCodeLifetime),
		})
	}
	return all, nil
}

// load reads the pairing state without expired requests.
func (d PairingOperator) load(ctx context.Context) (*Pairings, error) {
	p, err := LoadPairings(ctx, d.Ledger, d.Channel)
	if err == nil {
		p.dropExpired(time.Now())
	}
	return p, err
}

// HasCode reports whether an open request has this code. It does not count as an attempt.
func (d PairingOperator) HasCode(ctx context.Context, code string) (bool, error) {
	p, err := d.load(ctx)
	return err == nil && p.findRequest(code) >= 0, err
}

// Approve gives access to the user with this code and notifies them. Wrong codes count against
// maxBadPairingCodes. An unknown code is a NotFound error.
func (d PairingOperator) Approve(ctx context.Context, code string, admin bool, by string) (PairingPerson, error) {
	var in *PairingRequest
	var refusal error
	var at time.Time
	var done ledger.Action
	err := UpdatePairings(ledger.WithAction(ctx, &done), d.update, func(p *Pairings, now time.Time) bool {
		at = now
		in, refusal = p.approve(code, admin, by, now)
		if done = (ledger.Action{}); refusal == nil { // else only the wrong code is counted
			done = d.action("pairing.approve", in.User)
			done.Detail["admin"] = strconv.FormatBool(admin)
		}
		return true
	})
	if err = cmp.Or(err, refusal); err != nil {
		return PairingPerson{}, err
	}
	who := PairingPerson{Channel: d.Channel, User: in.User, Name: in.Name, Admin: admin, Since: at, By: by}
	err = channel.SendAnswer(ctx, d.Ledger, d.Channel, channel.Answer{
		Room: in.Room.Words(in.Bot), Key: "paired:" + digest.ID(in.Event, string(in.Salt)), Metadata: in.Room.Labels(),
		Text: "You have access now. " + in.Help + " lists the commands.",
	})
	if err != nil {
		err = fmt.Errorf("%s has access, but could not be notified: %w", in.User, err)
	}
	return who, err
}

// Revoke removes a user's access or open request.
func (d PairingOperator) Revoke(ctx context.Context, user string) error {
	found, done := false, d.action("pairing.revoke", user)
	err := UpdatePairings(ledger.WithAction(ctx, &done), d.update, func(p *Pairings, _ time.Time) bool {
		found = p.revoke(user)
		return found
	})
	if err == nil && !found {
		err = mailroom.Errorf(mailroom.CodeNotFound, "user %q is not paired with channel %s", display.Name(user), d.Channel)
	}
	return err
}

// action returns what an operator does with a user, for the audit log.
func (d PairingOperator) action(name, user string) ledger.Action {
	return ledger.Action{Name: name, ObjectKind: "user", Object: user, Detail: map[string]string{"channel": d.Channel}}
}

func (d PairingOperator) update(
	ctx context.Context, what string, f func(json.RawMessage, time.Time) (json.RawMessage, error),
) error {
	return channel.UpdateValue(ctx, d.Ledger, d.Channel, what, f)
}

// LoadPairings reads the pairing state of a channel.
func LoadPairings(ctx context.Context, l channel.Viewer, name string) (*Pairings, error) {
	kept, err := channel.ReadValue(ctx, l, name, pairingKey)
	if err != nil {
		return nil, err
	}
	p, err := decodePairings(kept)
	if err != nil {
		return nil, channel.Fatal(err)
	}
	return p, nil
}

// pairingUpdater updates a stored value of a channel, see [channel.UpdateValue].
type pairingUpdater func(ctx context.Context, what string,
	f func(json.RawMessage, time.Time) (json.RawMessage, error)) error

// UpdatePairings changes the pairing state with f, which reports whether it changed anything.
func UpdatePairings(ctx context.Context, keep pairingUpdater, f func(p *Pairings, now time.Time) bool) error {
	return keep(ctx, pairingKey, func(kept json.RawMessage, now time.Time) (json.RawMessage, error) {
		p, err := decodePairings(kept)
		if err != nil {
			return nil, err
		}
		if !f(p, now) {
			return nil, nil
		}
		return json.Marshal(p)
	})
}
