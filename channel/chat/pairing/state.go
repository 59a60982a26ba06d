package pairing

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
	"mailroom/channel/chat"
)

// Limits of pairing.
const (
	// SendTimeout bounds the sending of a code. After it, a code without a record counts as not sent.
	SendTimeout = 10 * time.Second
	// CodeLifetime is how long a code is valid.
	CodeLifetime = time.Hour
	// MaxRequests is the number of open requests of a channel.
	MaxRequests = 3
	// RequestInterval is the minimum time between two codes for one user.
	RequestInterval = 10 * time.Minute
	// MaxBadCodes is the number of wrong codes in a row that lock the pairing of a channel for
	// LockoutDuration: it approves no code and hands out none.
	MaxBadCodes     = 5
	LockoutDuration = time.Hour
	// MaxPaired is the number of users that a channel can pair.
	MaxPaired = 1000
)

const (
	codeLetters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789" // 32 unambiguous characters
	codeLength  = 8
	saltLength  = 16
)

// State is the stored pairing state of a channel.
type State struct {
	Paired   []User    `json:"paired,omitempty"`
	Requests []Request `json:"requests,omitempty"`
	Bad      int       `json:"bad,omitempty"` // wrong codes in a row
	Locked   time.Time `json:"locked,omitzero"`
	// Account is the bot's account to which the users and requests belong, see [chat.Capabilities.Account]. "": none,
	// or a version that did not know it wrote them.
	Account string `json:"account,omitempty"`
	// Ended are the private chats of users whose pairing was revoked, at most MaxPaired: what their conversations write
	// is not sent there any more.
	Ended []Ended `json:"ended,omitempty"`
}

// Ended is the private chat of a user who was unpaired.
type Ended struct {
	User string `json:"user"`
	Chat string `json:"chat"`
}

// Bind makes the state one of an account: ids of users mean nothing at another platform, and another bot was not asked
// to let them in, so users and requests of another account are dropped. Those without an account are of an older
// version, and adopted. It reports whether it changed the state, and how many users lost access.
func (p *State) Bind(account string) (changed bool, ended int) {
	if p.Account == account || len(p.Paired)+len(p.Requests)+len(p.Ended) == 0 { // an empty state is bound with its first request
		return false, 0
	}
	if p.Account != "" {
		ended = len(p.Paired)
		p.Paired, p.Requests, p.Ended = nil, nil, nil
	}
	p.Account = account
	return true, ended
}

// User is a user with an approved code.
type User struct {
	User  string    `json:"user"`
	Name  string    `json:"name,omitempty"`
	Admin bool      `json:"admin,omitempty"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
	Chat  string    `json:"chat,omitempty"` // private, in which the code was given; "": an older version approved it
}

// Request is an open request for access. It stores only a salted hash of the code.
type Request struct {
	User  string    `json:"user"`
	Name  string    `json:"name,omitempty"`
	Room  chat.Room `json:"room"`
	Bot   string    `json:"bot"`
	Help  string    `json:"help"`  // how to call the help command there
	Event string    `json:"event"` // key of the event that made it
	Salt  []byte    `json:"salt"`
	Sum   []byte    `json:"sum"`
	At    time.Time `json:"at"`
	// RetryAt is when the user may request another code before RequestInterval has passed,
	// because the code may not have been sent. Zero means it was sent.
	RetryAt time.Time `json:"again,omitzero"`
}

// newCode makes a code from codeLength random bytes.
func newCode(random []byte) string {
	var code [codeLength]byte
	for i := range code {
		code[i] = codeLetters[int(random[i])%len(codeLetters)] // no bias: 256 is a multiple of 32
	}
	return string(code[:])
}

// FormatCode formats a code for people.
func FormatCode(code string) string { return code[:codeLength/2] + "-" + code[codeLength/2:] }

// normalizeCode undoes FormatCode, and ignores case and white space.
func normalizeCode(typed string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '-' {
			return -1
		}
		return unicode.ToUpper(r)
	}, typed)
}

// WithCode returns the request with the hash of a new random code, and the code.
func (r Request) WithCode() (Request, string) {
	random := make([]byte, codeLength+saltLength)
	rand.Read(random) // never fails
	code := newCode(random[:codeLength])
	r.Salt = random[codeLength:]
	r.Sum = codeSum(r.Salt, code)
	return r, code
}

func codeSum(salt []byte, code string) []byte {
	sum := sha256.Sum256(append(slices.Clone(salt), code...))
	return sum[:]
}

// decode decodes the stored state.
func decode(kept json.RawMessage) (*State, error) {
	p := &State{}
	if kept == nil {
		return p, nil
	}
	if err := json.Unmarshal(kept, p); err != nil {
		return nil, fmt.Errorf("decode pairing state: %w", err)
	}
	return p, nil
}

// Tier returns the tier of a user of an account in a room, by a policy and by pairing.
func (p *State) Tier(policy *chat.AccessPolicy, account, user string, room chat.Room) chat.Tier {
	best := policy.Tier(user, room)
	switch one := p.findUser(user); {
	case user == "", one == nil, p.Account != "" && p.Account != account: // "": a server of an older version wrote it last
		return best
	case one.Admin:
		return chat.TierAdmin
	}
	return max(best, chat.TierGuest)
}

// Barred reports whether a room is the private chat of a user who was unpaired, and whom a policy does not let in
// either.
func (p *State) Barred(policy *chat.AccessPolicy, account string, room chat.Room) bool {
	return !room.Group && slices.ContainsFunc(p.Ended, func(e Ended) bool {
		return e.Chat == room.Chat && p.Tier(policy, account, e.User, room) == chat.TierStranger
	})
}

// findUser returns a paired user, nil if there is none.
func (p *State) findUser(user string) *User {
	i := slices.IndexFunc(p.Paired, func(one User) bool { return one.User == user })
	if i < 0 {
		return nil
	}
	return &p.Paired[i]
}

// dropExpired removes requests with expired codes.
func (p *State) dropExpired(now time.Time) {
	p.Requests = slices.DeleteFunc(p.Requests, func(r Request) bool { return now.Sub(r.At) >= CodeLifetime })
}

// AddRequest adds a request and reports whether its code should be sent. If the event of an open
// request comes again, its code was not sent and is replaced. So is a code that may not have been
// sent, see Request.RetryAt. account is the bot's.
func (p *State) AddRequest(r Request, account string, now time.Time) bool {
	p.Bind(account)
	p.Account = account
	p.dropExpired(now)
	if now.Before(p.Locked) {
		return false
	}
	r.At, r.RetryAt = now, now.Add(SendTimeout)
	i := slices.IndexFunc(p.Requests, func(o Request) bool { return o.User == r.User })
	switch {
	case i >= 0 && p.Requests[i].Event == r.Event:
		r.At = p.Requests[i].At
		p.Requests[i] = r
	case i >= 0 && now.Sub(p.Requests[i].At) < RequestInterval && (p.Requests[i].RetryAt.IsZero() || now.Before(p.Requests[i].RetryAt)):
		return false
	case i >= 0:
		p.Requests[i] = r
	case len(p.Requests) >= MaxRequests:
		return false
	default:
		p.Requests = append(p.Requests, r)
	}
	return true
}

// RecordSent records whether the code with this salt was sent. It reports whether its request is
// still open.
func (p *State) RecordSent(user string, salt []byte, sent bool, now time.Time) bool {
	i := slices.IndexFunc(p.Requests, func(r Request) bool { return r.User == user && bytes.Equal(r.Salt, salt) })
	if i < 0 {
		return false
	}
	p.Requests[i].RetryAt = now
	if sent {
		p.Requests[i].RetryAt = time.Time{}
	}
	return true
}

// findRequest returns the index of the request with a code, -1 if there is none. It compares all
// requests, so that the time reveals nothing.
func (p *State) findRequest(code string) int {
	found := -1
	for i, r := range p.Requests {
		if subtle.ConstantTimeCompare(codeSum(r.Salt, normalizeCode(code)), r.Sum) == 1 {
			found = i
		}
	}
	return found
}

// approve pairs the user who has a code. A wrong code counts against MaxBadCodes.
func (p *State) approve(code string, admin bool, by string, now time.Time) (*Request, error) {
	p.dropExpired(now)
	if now.Before(p.Locked) {
		e := mailroom.Errorf(mailroom.CodeRateLimited, "after %d wrong codes pairing is locked until %s", MaxBadCodes, p.Locked.UTC().Format(time.RFC3339))
		e.RetryAfter = p.Locked.Sub(now)
		return nil, e
	}
	found := p.findRequest(code)
	if found < 0 {
		if p.Bad++; p.Bad >= MaxBadCodes {
			p.Bad, p.Locked, p.Requests = 0, now.Add(LockoutDuration), nil
		}
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no open request has this code; a code is valid for %s", CodeLifetime)
	}
	r := p.Requests[found]
	if p.findUser(r.User) == nil && len(p.Paired) >= MaxPaired {
		return nil, mailroom.Errorf(mailroom.CodeConflict, "%d users are paired already; remove one with `mailroom pair revoke`, or list users in the configuration", MaxPaired)
	}
	p.Requests = slices.Delete(p.Requests, found, found+1)
	p.Bad = 0
	p.Paired = slices.DeleteFunc(p.Paired, func(one User) bool { return one.User == r.User })
	p.Paired = append(p.Paired, User{User: r.User, Name: r.Name, Admin: admin, By: by, At: now, Chat: r.Room.Chat})
	p.Ended = slices.DeleteFunc(p.Ended, func(e Ended) bool { return e.User == r.User })
	return &r, nil
}

// revoke removes a user's access or open request. It reports whether there was one.
func (p *State) revoke(user string) bool {
	n := len(p.Paired) + len(p.Requests)
	if one := p.findUser(user); one != nil && one.Chat != "" {
		p.Ended = append(p.Ended, Ended{one.User, one.Chat})
		p.Ended = p.Ended[max(0, len(p.Ended)-MaxPaired):]
	}
	p.Paired = slices.DeleteFunc(p.Paired, func(one User) bool { return one.User == user })
	p.Requests = slices.DeleteFunc(p.Requests, func(r Request) bool { return r.User == user })
	return len(p.Paired)+len(p.Requests) < n
}
