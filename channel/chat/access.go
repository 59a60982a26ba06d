package chat

import (
	"fmt"
	"slices"
	"time"

	"mailroom"
)

// AccessPolicy says who may use a bot and how their messages are handled. The zero value denies
// everyone.
type AccessPolicy struct {
	Admins []string // ids of users with every permission
	Users  []string // ids of users who may talk
	Chats  []string // ids of chats in which every user may talk
	// AllowAll lets every user talk everywhere, for a platform that authenticates its senders.
	AllowAll bool
	// Pairing gives an unknown user in a private chat a code, which the operator can approve on
	// the server.
	Pairing bool
	// BusyMode is the mode of a message to a busy agent: ModeQueue by default, ModeSteer,
	// ModeInterrupt or ModeCollect.
	BusyMode mailroom.Mode
	// Join is how long a message waits for more messages of its user, which become one run with it. 0 means not at
	// all.
	Join time.Duration
	// AllGroupMessages also handles group messages that are not addressed to the bot.
	AllGroupMessages bool
	// PerUser gives each user of a group a conversation of their own.
	PerUser bool
	// MaxFileSize is the largest file that is stored, in bytes; 0 means DefaultMaxFileSize.
	MaxFileSize int64
}

// DefaultMaxFileSize is the default of AccessPolicy.MaxFileSize, in bytes.
const DefaultMaxFileSize = 20 << 20

// DefaultJoin is the default of AccessPolicy.Join for platforms on which people talk, and MaxJoin its maximum.
//
// Public bug reports of bots name 5 s as too long for "hello". The pieces of a forward or of a cut
// text come within a few hundred milliseconds, lines that a person types within one to three
// seconds. An agent thinks for seconds anyway, so one second more is seldom noticed, and two
// answers always are. A text at the limit of the platform waits for 3 s, because what follows is as
// long to send. Webhooks have 0 s: their programs correlate one answer with one request.
const (
	DefaultJoin = time.Second
	MaxJoin     = 5 * time.Second
)

// BusyModes returns the valid values of BusyMode, the default first.
func BusyModes() []mailroom.Mode {
	return []mailroom.Mode{mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeInterrupt, mailroom.ModeCollect}
}

// Validate returns an error that names an invalid value.
func (t *AccessPolicy) Validate() error {
	if t.BusyMode != "" && !slices.Contains(BusyModes(), t.BusyMode) {
		return fmt.Errorf("unknown busy mode %q; use one of %v", t.BusyMode, BusyModes())
	}
	if t.Join < 0 || t.Join > MaxJoin {
		return fmt.Errorf("join_within of %s; use 0s to %s", t.Join, MaxJoin)
	}
	if t.MaxFileSize < 0 {
		return fmt.Errorf("negative maximum file size %d", t.MaxFileSize)
	}
	return nil
}

// Tier is a user's permission level. A higher tier includes the lower ones.
type Tier int

const (
	TierStranger Tier = iota // a user without permission
	TierGuest                // may talk, and control the resulting runs
	TierAdmin                // may also decide approvals
)

func (t Tier) String() string {
	switch t {
	case TierGuest:
		return "user"
	case TierAdmin:
		return "admin"
	}
	return "stranger"
}

// Tier returns the tier of a user in a room.
func (t *AccessPolicy) Tier(user string, p Room) Tier {
	switch {
	case user == "": // an event without an author has no permission
		return TierStranger
	case slices.Contains(t.Admins, user):
		return TierAdmin
	case t.AllowAll || slices.Contains(t.Users, user) || slices.Contains(t.Chats, p.Chat):
		return TierGuest
	}
	return TierStranger
}
