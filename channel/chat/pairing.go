package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/channel"
)

// pairingKey is under which name a channel keeps its people.
const pairingKey = "people"

// Pairing is who was let in to talk on a channel, with codes, for who decides that.
type Pairing struct {
	Ledger  channel.Ledger
	Channel string
}

// Person is somebody who was let in, or waits for it. Names are as they called
// themselves.
type Person struct {
	Channel string
	User    string // the platform's id
	Name    string
	Admin   bool
	Waits   bool      // for a code to be approved
	Since   time.Time // that they were let in, or asked
	Until   time.Time // of a code; zero for who was let in
	By      string    // who let them in
}

// List is everybody who was let in, and then who waits.
func (d Pairing) List(ctx context.Context) ([]Person, error) {
	p, err := d.load(ctx)
	if err != nil {
		return nil, err
	}
	var all []Person
	for _, one := range p.Paired {
		all = append(all, Person{Channel: d.Channel, User: one.User, Name: one.Name, Admin: one.Admin, Since: one.At, By: one.By})
	}
	for _, r := range p.Requests {
		all = append(all, Person{Channel: d.Channel, User: r.User, Name: r.Name, Waits: true, Since: r.At, Until: r.At.Add(CodeLifetime)})
	}
	return all, nil
}

// load are those that count now.
func (d Pairing) load(ctx context.Context) (*pairingState, error) {
	kept, err := channel.ReadValue(ctx, d.Ledger, d.Channel, pairingKey)
	if err != nil {
		return nil, err
	}
	p, err := decodePairing(kept)
	if err == nil {
		p.dropExpired(time.Now())
	}
	return p, err
}

// HasCode reports whether somebody waits who has this code. That counts as no try.
func (d Pairing) HasCode(ctx context.Context, code string) (bool, error) {
	p, err := d.load(ctx)
	return err == nil && p.findRequest(code) >= 0, err
}

// Approve lets in who got this code, and tells them so. Wrong codes are counted, see
// MaxBadCodes. A code that nobody has is NotFound.
func (d Pairing) Approve(ctx context.Context, code string, admin bool, by string) (Person, error) {
	var in *pairRequest
	var refusal error
	var at time.Time
	err := updatePairing(ctx, d.update, func(p *pairingState, now time.Time) bool {
		at = now
		in, refusal = p.approve(code, admin, by, now)
		return true
	})
	if err = cmp.Or(err, refusal); err != nil {
		return Person{}, err
	}
	who := Person{Channel: d.Channel, User: in.User, Name: in.Name, Admin: admin, Since: at, By: by}
	err = channel.SendAnswer(ctx, d.Ledger, d.Channel, channel.Answer{
		Room: in.Room.words(in.Bot), Key: "paired:" + mailroom.DeriveID(in.Event, string(in.Salt)), Metadata: in.Room.labels(),
		Text: "You may talk to me now. " + in.Help + " says what I understand.",
	})
	if err != nil {
		err = fmt.Errorf("%s was let in, and could not be told: %w", in.User, err)
	}
	return who, err
}

// Revoke takes somebody out who was let in, or waits for it.
func (d Pairing) Revoke(ctx context.Context, user string) error {
	found := false
	err := updatePairing(ctx, d.update, func(p *pairingState, _ time.Time) bool {
		found = p.revoke(user)
		return found
	})
	if err == nil && !found {
		err = mailroom.Errorf(mailroom.CodeNotFound, "user %q was not let in to channel %s with a code", oneLine(user), d.Channel)
	}
	return err
}

func (d Pairing) update(ctx context.Context, what string, f func(json.RawMessage, time.Time) (json.RawMessage, error)) error {
	return channel.UpdateValue(ctx, d.Ledger, d.Channel, what, f)
}

// updater changes what a channel keeps under a name, see [channel.UpdateValue].
type updater func(ctx context.Context, what string, f func(json.RawMessage, time.Time) (json.RawMessage, error)) error

// updatePairing changes them by f, which reports whether it did.
func updatePairing(ctx context.Context, keep updater, f func(p *pairingState, now time.Time) bool) error {
	return keep(ctx, pairingKey, func(kept json.RawMessage, now time.Time) (json.RawMessage, error) {
		p, err := decodePairing(kept)
		if err != nil {
			return nil, err
		}
		if !f(p, now) {
			return nil, nil
		}
		return json.Marshal(p)
	})
}
