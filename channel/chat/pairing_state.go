package chat

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"mailroom"
	"mailroom/internal/display"
)

// Limits of pairing.
const (
	// CodeLifetime is how long a code is good for.
	CodeLifetime = time.Hour
	// MaxRequests is how many codes of a channel are open at once.
	MaxRequests = 3
	// RequestInterval is how long somebody who got a code gets no other one.
	RequestInterval = 10 * time.Minute
	// MaxBadCodes is how many wrong codes in a row lock the pairing of a channel, for
	// LockedFor: nobody is let in, and no codes are given.
	MaxBadCodes     = 5
	LockoutDuration = time.Hour
	// MaxPaired is how many can be let in to a channel with codes.
	MaxPaired = 1000
)

const (
	codeLetters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789" // none that looks like another: 32
	codeLength  = 8
	saltLength  = 16
	maxName     = 64 // characters of what is shown of a user or a chat
)

// pairingState is what a channel keeps of who may talk: who was let in, and who asked.
type pairingState struct {
	Paired   []pairedUser  `json:"paired,omitempty"`
	Requests []pairRequest `json:"requests,omitempty"`
	Bad      int           `json:"bad,omitempty"` // wrong codes in a row
	Locked   time.Time     `json:"locked,omitzero"`
}

// pairedUser is somebody who was let in.
type pairedUser struct {
	User  string    `json:"user"`
	Name  string    `json:"name,omitempty"`
	Admin bool      `json:"admin,omitempty"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
}

func (p *pairedUser) tier() Tier {
	if p.Admin {
		return TierAdmin
	}
	return TierGuest
}

// pairRequest is somebody who asked to be let in. Of the code there is only the sum.
type pairRequest struct {
	User  string    `json:"user"`
	Name  string    `json:"name,omitempty"`
	Room  Room      `json:"room"`
	Bot   string    `json:"bot"`
	Help  string    `json:"help"`  // how commands are told there
	Event string    `json:"event"` // that asked
	Salt  []byte    `json:"salt"`
	Sum   []byte    `json:"sum"`
	At    time.Time `json:"at"`
	// RetryAt is when the user can ask again before AskAgain has passed, because the code is
	// not known to be sent. Zero: it was sent.
	RetryAt time.Time `json:"again,omitzero"`
}

// newCode makes a code of random bytes, codeLength of them.
func newCode(random []byte) string {
	var code [codeLength]byte
	for i := range code {
		code[i] = codeLetters[int(random[i])%len(codeLetters)] // 256 is a multiple of it
	}
	return string(code[:])
}

// formatCode is a code as people read it.
func formatCode(code string) string { return code[:codeLength/2] + "-" + code[codeLength/2:] }

// normalizeCode is a code as somebody typed it, as it was made.
func normalizeCode(typed string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '-' {
			return -1
		}
		return unicode.ToUpper(r)
	}, typed)
}

func codeSum(salt []byte, code string) []byte {
	sum := sha256.Sum256(append(slices.Clone(salt), code...))
	return sum[:]
}

// decodePairing reads what was kept.
func decodePairing(kept json.RawMessage) (*pairingState, error) {
	p := &pairingState{}
	if kept == nil {
		return p, nil
	}
	if err := json.Unmarshal(kept, p); err != nil {
		return nil, fmt.Errorf("read who may talk: %w", err)
	}
	return p, nil
}

// findUser is somebody who was let in; nil if they were not.
func (p *pairingState) findUser(user string) *pairedUser {
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.Paired, func(one pairedUser) bool { return one.User == user })
	if i < 0 {
		return nil
	}
	return &p.Paired[i]
}

// dropExpired forgets requests whose code is not good any more.
func (p *pairingState) dropExpired(now time.Time) {
	p.Requests = slices.DeleteFunc(p.Requests, func(r pairRequest) bool { return now.Sub(r.At) >= CodeLifetime })
}

// addRequest takes a request, and reports whether its code is sent to the user. The event that
// made the open request of a user may come again: the code was not sent then, and is
// replaced. So is one that is not known to be sent, see [request].Again.
func (p *pairingState) addRequest(r pairRequest, now time.Time) bool {
	p.dropExpired(now)
	if now.Before(p.Locked) {
		return false
	}
	r.At, r.RetryAt = now, now.Add(backgroundTimeout)
	i := slices.IndexFunc(p.Requests, func(o pairRequest) bool { return o.User == r.User })
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

// recordSent notes whether the code with this salt was sent, and reports whether that is news.
func (p *pairingState) recordSent(user string, salt []byte, sent bool, now time.Time) bool {
	i := slices.IndexFunc(p.Requests, func(r pairRequest) bool { return r.User == user && bytes.Equal(r.Salt, salt) })
	if i < 0 {
		return false
	}
	p.Requests[i].RetryAt = now
	if sent {
		p.Requests[i].RetryAt = time.Time{}
	}
	return true
}

// findRequest is the request that has a code, -1 if none does. All are looked at, so that the
// time tells nothing.
func (p *pairingState) findRequest(code string) int {
	found := -1
	for i, r := range p.Requests {
		if subtle.ConstantTimeCompare(codeSum(r.Salt, normalizeCode(code)), r.Sum) == 1 {
			found = i
		}
	}
	return found
}

// approve lets in who has a code. A wrong one is counted, and changes p too.
func (p *pairingState) approve(code string, admin bool, by string, now time.Time) (*pairRequest, error) {
	p.dropExpired(now)
	if now.Before(p.Locked) {
		e := mailroom.Errorf(mailroom.CodeRateLimited, "after %d wrong codes nobody is let in until %s", MaxBadCodes, p.Locked.UTC().Format(time.RFC3339))
		e.RetryAfter = p.Locked.Sub(now)
		return nil, e
	}
	found := p.findRequest(code)
	if found < 0 {
		if p.Bad++; p.Bad >= MaxBadCodes {
			p.Bad, p.Locked, p.Requests = 0, now.Add(LockoutDuration), nil
		}
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "nobody who waits to be let in has this code; a code is good for %s", CodeLifetime)
	}
	r := p.Requests[found]
	if p.findUser(r.User) == nil && len(p.Paired) >= MaxPaired {
		return nil, mailroom.Errorf(mailroom.CodeConflict, "%d users were let in already; take one out with `mailroom pair revoke`, or list users in the configuration", MaxPaired)
	}
	p.Requests = slices.Delete(p.Requests, found, found+1)
	p.Bad = 0
	p.Paired = slices.DeleteFunc(p.Paired, func(one pairedUser) bool { return one.User == r.User })
	p.Paired = append(p.Paired, pairedUser{User: r.User, Name: r.Name, Admin: admin, By: by, At: now})
	return &r, nil
}

// revoke takes somebody out who was let in, or refuses who waits for it.
func (p *pairingState) revoke(user string) bool {
	n := len(p.Paired) + len(p.Requests)
	p.Paired = slices.DeleteFunc(p.Paired, func(one pairedUser) bool { return one.User == user })
	p.Requests = slices.DeleteFunc(p.Requests, func(r pairRequest) bool { return r.User == user })
	return len(p.Paired)+len(p.Requests) < n
}

// oneLine renders a name that a user chose on one line of at most maxName characters. See
// [display.Line].
func oneLine(name string) string {
	name = strings.Join(strings.Fields(display.Line(strings.ToValidUTF8(name, "\ufffd"))), " ")
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName]) + "…"
	}
	return name
}
