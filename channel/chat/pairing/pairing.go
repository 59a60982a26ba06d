// Package pairing gives unknown users of a chat channel access by a code, which the operator approves.
package pairing

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/internal/digest"
	"mailroom/internal/display"
)

// stateKey names the stored pairing state of a channel.
const stateKey = "people"

// Operator manages the paired users of a channel.
type Operator struct {
	Ledger  channel.Ledger
	Channel string
}

// Person is a paired user or one with an open request. Names are the users' own.
type Person struct {
	Channel string
	User    string // id at the platform
	Name    string
	Admin   bool
	Waits   bool      // a code waits for approval
	Since   time.Time // of the approval or the request
	Until   time.Time // expiry of the code; zero for a paired user
	By      string    // who approved the code
}

// List returns the paired users and then the open requests.
func (d Operator) List(ctx context.Context) ([]Person, error) {
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

// load reads the pairing state without expired requests.
func (d Operator) load(ctx context.Context) (*State, error) {
	p, err := Load(ctx, d.Ledger, d.Channel)
	if err == nil {
		p.dropExpired(time.Now())
	}
	return p, err
}

// HasCode reports whether an open request has this code. It does not count as an attempt.
func (d Operator) HasCode(ctx context.Context, code string) (bool, error) {
	p, err := d.load(ctx)
	return err == nil && p.findRequest(code) >= 0, err
}

// Approve gives access to the user with this code and notifies them. Wrong codes count against
// MaxBadCodes. An unknown code is a NotFound error.
func (d Operator) Approve(ctx context.Context, code string, admin bool, by string) (Person, error) {
	var in *Request
	var refusal error
	var at time.Time
	err := Update(ctx, d.update, func(p *State, now time.Time) bool {
		at = now
		in, refusal = p.approve(code, admin, by, now)
		return true
	})
	if err = cmp.Or(err, refusal); err != nil {
		return Person{}, err
	}
	who := Person{Channel: d.Channel, User: in.User, Name: in.Name, Admin: admin, Since: at, By: by}
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
func (d Operator) Revoke(ctx context.Context, user string) error {
	found := false
	err := Update(ctx, d.update, func(p *State, _ time.Time) bool {
		found = p.revoke(user)
		return found
	})
	if err == nil && !found {
		err = mailroom.Errorf(mailroom.CodeNotFound, "user %q is not paired with channel %s", display.Name(user), d.Channel)
	}
	return err
}

func (d Operator) update(ctx context.Context, what string, f func(json.RawMessage, time.Time) (json.RawMessage, error)) error {
	return channel.UpdateValue(ctx, d.Ledger, d.Channel, what, f)
}

// Load reads the pairing state of a channel.
func Load(ctx context.Context, l channel.Viewer, name string) (*State, error) {
	kept, err := channel.ReadValue(ctx, l, name, stateKey)
	if err != nil {
		return nil, err
	}
	p, err := decode(kept)
	if err != nil {
		return nil, channel.Fatal(err)
	}
	return p, nil
}

// updater updates a stored value of a channel, see [channel.UpdateValue].
type updater func(ctx context.Context, what string, f func(json.RawMessage, time.Time) (json.RawMessage, error)) error

// Update changes the pairing state with f, which reports whether it changed anything.
func Update(ctx context.Context, keep updater, f func(p *State, now time.Time) bool) error {
	return keep(ctx, stateKey, func(kept json.RawMessage, now time.Time) (json.RawMessage, error) {
		p, err := decode(kept)
		if err != nil {
			return nil, err
		}
		if !f(p, now) {
			return nil, nil
		}
		return json.Marshal(p)
	})
}
