package chat

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"mailroom"
)

// Limits of pairing.
const (
	// PairingSendTimeout bounds the sending of a code. After it, a code without a record counts as not sent.
	PairingSendTimeout = 10 * time.Second
	// pairingCodeLifetime is how long a code is valid.
	pairingCodeLifetime = time.Hour
	// maxPairingRequests is the number of open requests of a channel.
	maxPairingRequests = 3
	// pairingRequestInterval is the minimum time between two codes for one user.
	pairingRequestInterval = 10 * time.Minute
	// maxBadPairingCodes is the number of wrong codes in a row that lock the pairing of a channel for
	// pairingLockout: it approves no code and hands out none.
	maxBadPairingCodes = 5
	pairingLockout     = time.Hour
	// maxPaired is the number of users that a channel can pair.
	maxPaired = 1000
)

const (
	codeLetters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789" // 32 unambiguous characters
	codeLength  = 8
	saltLength  = 16
)

// Pairings is the stored pairing state of a channel: unknown users get access by a code, which the operator approves.
type Pairings struct {
	Paired   []pairedUser     `json:"paired,omitempty"`
	Requests []PairingRequest `json:"requests,omitempty"`
	Bad      int              `json:"bad,omitempty"` // wrong codes in a row
	Locked   time.Time        `json:"locked,omitzero"`
	// Account is the bot's account to which the users and requests belong, see [Capabilities.Account]. It is "" if
	// the platform has no accounts, or if an older version wrote the users and requests.
	Account string `json:"account,omitempty"`
	// Ended are the private chats of users whose pairing was revoked, at most maxPaired: what their conversations write
	// is not sent there any more.
	Ended []endedPairing `json:"ended,omitempty"`
}

// endedPairing is the private chat of a user who was unpaired.
type endedPairing struct {
	User string `json:"user"`
	Chat string `json:"chat"`
}

// Bind ties the state to an account. It drops the users and requests of another account, because user ids mean
// nothing on another platform, and another bot was not asked to let these users in. It keeps users and requests
// without an account, which an older version stored. It reports whether it changed the state, and how many users lost
// access.
func (p *Pairings) Bind(account string) (changed bool, ended int) {
	// an empty state is bound with its first request
	if p.Account == account || len(p.Paired)+len(p.Requests)+len(p.Ended) == 0 {
		return false, 0
	}
	if p.Account != "" {
		ended = len(p.Paired)
		p.Paired, p.Requests, p.Ended = nil, nil, nil
	}
	p.Account = account
	return true, ended
}

// pairedUser is a user with an approved code.
type pairedUser struct {
	User  string    `json:"user"`
	Name  string    `json:"name,omitempty"`
	Admin bool      `json:"admin,omitempty"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
	Chat  string    `json:"chat,omitempty"` // private, in which the code was given; "": an older version approved it
}

// PairingRequest is an open request for access. It stores only a salted hash of the code.
type PairingRequest struct {
	User  string    `json:"user"`
	Name  string    `json:"name,omitempty"`
	Room  Room      `json:"room"`
	Bot   string    `json:"bot"`
	Help  string    `json:"help"`  // how to call the help command there
	Event string    `json:"event"` // key of the event that made it
	Salt  []byte    `json:"salt"`
	Sum   []byte    `json:"sum"`
	At    time.Time `json:"at"`
	// RetryAt is when the user may request another code before pairingRequestInterval has passed,
	// because the code may not have been sent. Zero means it was sent.
	RetryAt time.Time `json:"again,omitzero"`
}

// newPairingCode makes a code from codeLength random bytes.
func newPairingCode(random []byte) string {
	var code [codeLength]byte
	for i := range code {
		code[i] = codeLetters[int(random[i])%len(codeLetters)] // no bias: 256 is a multiple of 32
	}
	return string(code[:])
}

// FormatPairingCode formats a code for people.
func FormatPairingCode(code string) string { return code[:codeLength/2] + "-" + code[codeLength/2:] }

// normalizeCode undoes FormatPairingCode, and ignores case and white space.
func normalizeCode(typed string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '-' {
			return -1
		}
		return unicode.ToUpper(r)
	}, typed)
}

// WithCode returns the request with the hash of a new random code, and the code.
func (r PairingRequest) WithCode() (PairingRequest, string) {
	random := make([]byte, codeLength+saltLength)
	rand.Read(random) // never fails
	code := newPairingCode(random[:codeLength])
	r.Salt = random[codeLength:]
	r.Sum = codeSum(r.Salt, code)
	return r, code
}

func codeSum(salt []byte, code string) []byte {
	sum := sha256.Sum256(append(slices.Clone(salt), code...))
	return sum[:]
}

// decodePairings decodes the stored state.
func decodePairings(kept json.RawMessage) (*Pairings, error) {
	p := &Pairings{}
	if kept == nil {
		return p, nil
	}
	if err := json.Unmarshal(kept, p); err != nil {
		return nil, fmt.Errorf("decode pairing state: %w", err)
	}
	return p, nil
}

// Tier returns the tier of a user of an account in a room, by a policy and by pairing.
func (p *Pairings) Tier(policy *AccessPolicy, account, user string, room Room) Tier {
	best := policy.Tier(user, room)
	switch one := p.findUser(user); {
	case user == "", one == nil, p.Account != "" && p.Account != account: // "": a server of an older version wrote it last
		return best
	case one.Admin:
		return TierAdmin
	}
	return max(best, TierGuest)
}

// Barred reports whether a room is the private chat of a user who was unpaired, and whom a policy does not let in
// either.
func (p *Pairings) Barred(policy *AccessPolicy, account string, room Room) bool {
	return !room.Group && slices.ContainsFunc(p.Ended, func(e endedPairing) bool {
		return e.Chat == room.Chat && p.Tier(policy, account, e.User, room) == TierStranger
	})
}

// findUser returns a paired user, or nil.
func (p *Pairings) findUser(user string) *pairedUser {
	i := slices.IndexFunc(p.Paired, func(one pairedUser) bool { return one.User == user })
	if i < 0 {
		return nil
	}
	return &p.Paired[i]
}

// dropExpired removes requests with expired codes.
func (p *Pairings) dropExpired(now time.Time) {
	p.Requests = slices.DeleteFunc(p.Requests, func(r PairingRequest) bool { return now.Sub(r.At) >= pairingCodeLifetime })
}

// AddRequest adds a request and reports whether its code should be sent. If the event of an open
// request comes again, its code was not sent and is replaced. So is a code that may not have been
// sent, see PairingRequest.RetryAt. account is the bot's.
func (p *Pairings) AddRequest(r PairingRequest, account string, now time.Time) bool {
	p.Bind(account)
	p.Account = account
	p.dropExpired(now)
	if now.Before(p.Locked) {
		return false
	}
	r.At, r.RetryAt = now, now.Add(PairingSendTimeout)
	i := slices.IndexFunc(p.Requests, func(o PairingRequest) bool { return o.User == r.User })
	switch {
	case i >= 0 && p.Requests[i].Event == r.Event:
		r.At = p.Requests[i].At
		p.Requests[i] = r
	case i >= 0 && now.Sub(p.Requests[i].At) < pairingRequestInterval &&
		(p.Requests[i].RetryAt.IsZero() || now.Before(p.Requests[i].RetryAt)):
		return false
	case i >= 0:
		p.Requests[i] = r
	case len(p.Requests) >= maxPairingRequests:
		return false
	default:
		p.Requests = append(p.Requests, r)
	}
	return true
}

// RecordSent records whether the code with this salt was sent. It reports whether its request is
// still open.
func (p *Pairings) RecordSent(user string, salt []byte, sent bool, now time.Time) bool {
	i := slices.IndexFunc(p.Requests, func(r PairingRequest) bool { return r.User == user && bytes.Equal(r.Salt, salt) })
	if i < 0 {
		return false
	}
	p.Requests[i].RetryAt = now
	if sent {
		p.Requests[i].RetryAt = time.Time{}
	}
	return true
}

// findRequest returns the index of the request with a code, or -1. It compares all
// requests, so that the time reveals nothing.
func (p *Pairings) findRequest(code string) int {
	found := -1
	for i, r := range p.Requests {
		if subtle.ConstantTimeCompare(codeSum(r.Salt, normalizeCode(code)), r.Sum) == 1 {
			found = i
		}
	}
	return found
}

// approve pairs the user who has a code. A wrong code counts against maxBadPairingCodes.
func (p *Pairings) approve(code string, admin bool, by string, now time.Time) (*PairingRequest, error) {
	p.dropExpired(now)
	if now.Before(p.Locked) {
		e := mailroom.Errorf(mailroom.CodeRateLimited, "after %d wrong codes pairing is locked until %s",
			maxBadPairingCodes, p.Locked.UTC().Format(time.RFC3339))
		e.RetryAfter = p.Locked.Sub(now)
		return nil, e
	}
	found := p.findRequest(code)
	if found < 0 {
		if p.Bad++; p.Bad >= maxBadPairingCodes {
			p.Bad, p.Locked, p.Requests = 0, now.Add(pairingLockout), nil
		}
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no open request has this code; a code is valid for %s",
			pairingCodeLifetime)
	}
	r := p.Requests[found]
	if p.findUser(r.User) == nil && len(p.Paired) >= maxPaired {
		return nil, mailroom.Errorf(mailroom.CodeConflict, "%d users are paired already; remove one with "+
			"`mailroom pair revoke`, or list users in the configuration", maxPaired)
	}
	p.Requests = slices.Delete(p.Requests, found, found+1)
	p.Bad = 0
	p.Paired = slices.DeleteFunc(p.Paired, func(one pairedUser) bool { return one.User == r.User })
	p.Paired = append(p.Paired, pairedUser{User: r.User, Name: r.Name, Admin: admin, By: by, At: now, Chat: r.Room.Chat})
	p.Ended = slices.DeleteFunc(p.Ended, func(e endedPairing) bool { return e.User == r.User })
	return &r, nil
}

// revoke removes a user's access or open request. It reports whether there was one.
func (p *Pairings) revoke(user string) bool {
	n := len(p.Paired) + len(p.Requests)
	if one := p.findUser(user); one != nil && one.Chat != "" {
		p.Ended = append(p.Ended, endedPairing{one.User, one.Chat})
		p.Ended = p.Ended[max(0, len(p.Ended)-maxPaired):]
	}
	p.Paired = slices.DeleteFunc(p.Paired, func(one pairedUser) bool { return one.User == user })
	p.Requests = slices.DeleteFunc(p.Requests, func(r PairingRequest) bool { return r.User == user })
	return len(p.Paired)+len(p.Requests) < n
}
