// Package mail lets commands of the tracker reserve issues at a server and tell
// other agents what became of them, as long as there is a server. One that is not
// there, or not well, stops nobody: it costs one time-out and one warning, is then
// left alone for a while, and is told later what it missed.
//
// The protocol is that of the agents' mail: POST and DELETE of /api/reservations,
// POST of /api/notifications, with a bearer token. What is to be known of a server
// from one command to the next is in a small file in the tracker's folder. Its lock
// is never held while somebody waits for the network.
package mail

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultTimeout is what a server may cost a command that says nothing else.
	DefaultTimeout = time.Second
	// MaxTimeout is the most that a command may give a server.
	MaxTimeout = 10 * time.Minute

	lease          = time.Hour // of a reservation
	defaultBackoff = 30 * time.Second
	maxBackoff     = 5 * time.Minute
)

// Settings say which server is asked, and by whom.
type Settings struct {
	URL     string        // such as http://127.0.0.1:8765
	Token   string        // sent as a bearer token; "": none
	Agent   string        // who reserves
	Project string        // sent as X-Project; "": not sent
	Timeout time.Duration // for all requests of a command together; 0 is DefaultTimeout
}

// ReservedError is the refusal of a reservation that somebody else has.
type ReservedError struct {
	Issue string
	By    string
	Until time.Time // zero: nobody said
}

func (h *ReservedError) Error() string {
	text := h.Issue + " is reserved by " + h.By
	if !h.Until.IsZero() {
		text += " until " + h.Until.UTC().Format(time.RFC3339)
	}
	return text
}

// Client is the mail of one command. Its methods are for one goroutine; those of a
// nil Box, of a command without a server, do nothing.
type Client struct {
	settings Settings
	base     string // the server's address, without a slash at its end
	name     string // the same for messages, without secrets
	digest   string // of address and token
	place    stateFile
	client   *http.Client
	warn     func(message string)

	// of the command, changed as it goes on
	command  string        // a name that no other command has
	spent    time.Duration // on the network
	disabled bool          // the server is not asked again
	warned   bool
	needed   bool            // the command has something to ask
	reserved map[string]bool // issues to be given back if it fails; true: the server may have them reserved
}

// Open returns the mail of a command for the tracker in folder. warn is called at
// most once, with a line for a person. An address that is none is an error, which
// does not quote it: it may hold a password.
func Open(folder string, s Settings, warn func(message string)) (*Client, error) {
	u, err := url.Parse(strings.TrimSpace(s.URL))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the address of agent mail is not like http://127.0.0.1:8765")
	}
	s.Token = strings.TrimSpace(s.Token)
	if strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token of agent mail holds characters that no token has")
	}
	if s.Timeout <= 0 {
		s.Timeout = DefaultTimeout
	}
	s.Timeout = min(s.Timeout, MaxTimeout)
	u.RawQuery, u.Fragment, u.RawFragment = "", "", ""
	b := &Client{settings: s, base: strings.TrimRight(u.String(), "/"), place: stateFile{folder}, warn: warn, command: rand.Text(), reserved: map[string]bool{}}
	sum := sha256.Sum256([]byte(b.base + "\x00" + s.Token))
	b.digest = hex.EncodeToString(sum[:16])
	u.User = nil
	b.name = strings.TrimRight(u.String(), "/")
	transport := http.DefaultTransport.(*http.Transport).Clone() // the type that it has
	b.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // nobody else is given the token
	}}
	return b, nil
}

// Release ends the agent's reservation of an issue.
func Release(issue string) Call { return Call{Issue: issue} }

// Notice tells all other agents what happened. payload must encode as JSON.
func Notice(eventType string, payload any) Call {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err) // payloads are made of texts
	}
	return Call{Key: rand.Text(), Type: eventType, Payload: raw}
}

// timeLeft is the time that the command may still spend on the network.
func (b *Client) timeLeft() time.Duration { return b.settings.Timeout - b.spent }

// warnOnce warns, once.
func (b *Client) warnOnce(format string, args ...any) {
	if !b.warned {
		b.warned = true
		b.warn("agent mail at " + b.name + " " + fmt.Sprintf(format, args...))
	}
}

// update changes what is known of the server, unless change returns false. That
// it cannot be kept is told and stops nothing.
func (b *Client) update(ctx context.Context, change func(s *server, now time.Time) bool) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	err := b.place.update(ctx, func(all *state) bool {
		s := all.Servers[b.digest]
		if s == nil {
			s = &server{}
			all.Servers[b.digest] = s
		}
		now := time.Now()
		s.URL = b.name
		if !change(s, now) {
			return false
		}
		s.Changed = now
		return true
	})
	if err != nil {
		b.warnOnce("is used without what was known of it: %s", b.quote(err.Error()))
	}
}

// Reserve reserves issues, all or none: the error is a [*Held] then. What else
// goes wrong with the server is told, and counts as granted.
func (b *Client) Reserve(ctx context.Context, issues ...string) error {
	if b == nil || len(issues) == 0 {
		return nil
	}
	b.needed = true
	b.addHolds(ctx, issues)
	b.Flush(ctx) // others must be able to have what was released before
	for _, issue := range issues {
		if !b.disabled && b.timeLeft() <= 0 {
			b.disabled = true
			b.warnOnce("is too slow for what it is asked within %s; going on without a reservation", b.settings.Timeout)
		}
		if b.disabled {
			return nil
		}
		b.reserved[issue] = true
		switch r := b.send(ctx, b.reservation(issue)); r.verdict {
		case verdictHeld:
			r.holder.Issue = issue
			b.reserved[issue] = false
			b.ReleaseAll(ctx)
			return r.holder
		case verdictRefused:
			b.warnOnce("%s; going on without a reservation", r.reason)
		case verdictFailed:
			b.onFailure(ctx, r)
		}
	}
	return nil
}

// addHolds notes that the command is about to reserve issues. While another command
// is releasing one of them it waits, or a late release would end what is reserved
// now.
func (b *Client) addHolds(ctx context.Context, issues []string) {
	const again = 5 * time.Millisecond
	for {
		wait := false
		b.update(ctx, func(s *server, now time.Time) bool {
			if off := s.activeBackoff(now); off != nil {
				b.skipServer(off, now)
			}
			releasing := slices.ContainsFunc(s.Queued, func(c Call) bool { return c.Agent == b.settings.Agent && slices.Contains(issues, c.Issue) })
			if wait = !b.disabled && releasing && s.busy(b.command, now); wait {
				return false
			}
			for _, issue := range issues {
				b.reserved[issue] = s.cancelRelease(b.settings.Agent, issue) // what the server does not know is owed to it
				if !b.disabled {
					s.addHold(b.settings.Agent, issue, b.command, now)
				}
			}
			return !b.disabled || releasing
		})
		if !wait {
			return
		}
		if b.timeLeft() <= again {
			b.disabled = true
			b.warnOnce("is still being told of a release; going on without a reservation")
			continue
		}
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
			b.spent += again
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// skipServer goes on without a server that was found failing before.
func (b *Client) skipServer(off *backoff, now time.Time) {
	b.disabled = true
	if b.needed {
		b.warnOnce("%s; going on without it, and asking again in %d s", off.Reason, int(off.Until.Sub(now).Seconds())+1)
	}
}

// onFailure goes on without a server that has just failed, and leaves it alone.
func (b *Client) onFailure(ctx context.Context, r result) {
	b.disabled = true
	b.warnOnce("%s; going on without it", r.reason)
	b.update(ctx, func(s *server, now time.Time) bool {
		s.startBackoff(r.reason, r.retry, now)
		return true
	})
}

// ReleaseAll releases what the command has reserved, because it failed. What another
// command of the same agent holds too stays reserved.
func (b *Client) ReleaseAll(ctx context.Context) {
	if b == nil || len(b.reserved) == 0 {
		return
	}
	b.update(ctx, func(s *server, now time.Time) bool {
		for _, issue := range slices.Sorted(maps.Keys(b.reserved)) {
			if s.removeHold(b.settings.Agent, issue, b.command) && b.reserved[issue] {
				s.enqueue(b.stamp(Release(issue), now))
			}
		}
		return true
	})
	clear(b.reserved)
}

// Enqueue keeps calls for [Box.Flush], after everything that is kept already.
func (b *Client) Enqueue(ctx context.Context, calls ...Call) {
	if b == nil || len(calls) == 0 {
		return
	}
	b.needed = true
	dropped := 0
	b.update(ctx, func(s *server, now time.Time) bool {
		for _, c := range calls {
			dropped += s.enqueue(b.stamp(c, now))
		}
		return true
	})
	if dropped > 0 {
		b.warnOnce("was not told for so long that %d of the oldest things kept for it were dropped; %d are kept", dropped, maxQueued)
	}
}

func (b *Client) stamp(c Call, now time.Time) Call {
	c.At, c.Agent, c.Project = now.UTC(), b.settings.Agent, b.settings.Project
	return c
}
