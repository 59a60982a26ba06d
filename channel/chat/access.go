package chat

import (
	"fmt"
	"slices"

	"mailroom"
)

// AccessPolicy is who may talk to a bot, and what becomes of what they say. The zero value
// lets nobody talk.
type AccessPolicy struct {
	Admins []string // ids of users who may do everything
	Users  []string // ids of users who may talk
	Chats  []string // ids of chats in which everybody may talk
	// AllowAll may talk, everywhere: who hands in what is said is trusted.
	AllowAll bool
	// Pairing gives a stranger in private a code, with which somebody on the server's
	// machine can let them talk.
	Pairing bool
	// BusyMode is what a message does while the agent works: ModeQueue, which is the
	// default, ModeSteer, ModeInterrupt or ModeCollect.
	BusyMode mailroom.Mode
	// AllGroupMessages takes what is said in groups also if it is not addressed to the bot.
	AllGroupMessages bool
	// PerUser gives each user in a group a conversation of their own.
	PerUser bool
	// MaxFileSize is the largest file that is kept, in bytes; 0 is DefaultMaxFile.
	MaxFileSize int64
}

// BusyModes are what a message can do while the agent works, the default first.
func BusyModes() []mailroom.Mode {
	return []mailroom.Mode{mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeInterrupt, mailroom.ModeCollect}
}

func (t *AccessPolicy) validate() error {
	if t.BusyMode != "" && !slices.Contains(BusyModes(), t.BusyMode) {
		return fmt.Errorf("busy is %q, and can be one of %v", t.BusyMode, BusyModes())
	}
	if t.MaxFileSize < 0 {
		return fmt.Errorf("files of up to %d bytes cannot be kept", t.MaxFileSize)
	}
	return nil
}

// Tier is what somebody may do. A higher one may do all that a lower one may.
type Tier int

const (
	TierStranger Tier = iota // nothing
	TierGuest                // talk, and steer what comes of it
	TierAdmin                // also decide what an agent asks to do
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

// tier is that of a user who says something in a room, by the settings and by who
// was let in.
func (t *AccessPolicy) tier(user string, p Room, let *pairingState) Tier {
	if user == "" {
		return TierStranger // what nobody says is not said by somebody
	}
	best := TierStranger
	if t.AllowAll || slices.Contains(t.Users, user) || slices.Contains(t.Chats, p.Chat) {
		best = TierGuest
	}
	if slices.Contains(t.Admins, user) {
		best = TierAdmin
	}
	if one := let.findUser(user); one != nil {
		best = max(best, one.tier())
	}
	return best
}
