// Package mail lets tracker commands reserve issues at an agent mail server and notify other agents, if there is a
// server. A server that does not answer or fails never blocks a command. The command waits for one timeout and prints
// one warning; later commands skip the server for a while, and send the queued calls afterwards.
//
// The protocol is agent mail: POST and DELETE of /api/reservations and POST of
// /api/notifications, with a bearer token. State between commands is in a small file in the
// tracker's folder. Its lock is never held during network requests.
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
	// DefaultTimeout is the network time of a command that does not set one.
	DefaultTimeout = time.Second
	// MaxTimeout is the longest network time that a command may set.
	MaxTimeout = 10 * time.Minute

	lease          = time.Hour // duration of a reservation
	defaultBackoff = 30 * time.Second
	maxBackoff     = 5 * time.Minute
)

// Settings say which Agent Mail server a [Client] calls, as which agent and for how long.
type Settings struct {
	URL     string        // such as http://127.0.0.1:8765
	Token   string        // bearer token; "" for none
	Agent   string        // holder of reservations
	Project string        // sent in the header X-Project; "" sends no such header
	Timeout time.Duration // timeout of all requests of a command together; 0 means DefaultTimeout
}

// ReservedError reports that another agent holds the reservation of an issue.
type ReservedError struct {
	Issue string
	By    string
	Self  string    // the agent that was refused
	Until time.Time // zero if unknown
}

func (h *ReservedError) Error() string {
	text := h.Issue + " is reserved by " + h.By
	if !h.Until.IsZero() {
		text += " until " + h.Until.UTC().Format(time.RFC3339)
	}
	return text
}

// Client sends the mail of one command. It is not safe for concurrent use. A command without a server has a nil
// Client, whose methods do nothing.
type Client struct {
	settings Settings
	base     string // the mail server's address without a trailing slash
	name     string // address of the mail server for warnings, without user and password
	digest   string // hash of address and token
	place    stateFile
	client   *http.Client
	warn     func(message string)

	// State of the command while it runs.
	command  string        // unique name of this command
	spent    time.Duration // network time used
	disabled bool          // the client sends no more requests to the server
	warned   bool
	needed   bool            // the command has something to send
	reserved map[string]bool // issues to release if the command fails; true if the server may have them reserved
}

// Open returns the client of a command for the tracker in folder. warn is called at most once, with
// one line of text. The error for an invalid address does not quote it, because it may contain a
// password.
func Open(folder string, s Settings, warn func(message string)) (*Client, error) {
	u, err := url.Parse(strings.TrimSpace(s.URL))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("invalid address of agent mail: use one such as http://127.0.0.1:8765")
	}
	s.Token = strings.TrimSpace(s.Token)
	if strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("invalid token of agent mail: it contains spaces or characters outside ASCII")
	}
	if s.Timeout <= 0 {
		s.Timeout = DefaultTimeout
	}
	s.Timeout = min(s.Timeout, MaxTimeout)
	u.RawQuery, u.Fragment, u.RawFragment = "", "", ""
	b := &Client{settings: s, base: strings.TrimRight(u.String(), "/"), place: stateFile{folder}, warn: warn,
		command: rand.Text(), reserved: map[string]bool{}}
	sum := sha256.Sum256([]byte(b.base + "\x00" + s.Token))
	b.digest = hex.EncodeToString(sum[:16])
	u.User = nil
	b.name = strings.TrimRight(u.String(), "/")
	transport := http.DefaultTransport.(*http.Transport).Clone() // http documents the type of DefaultTransport
	b.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // never send the token to another server
	}}
	return b, nil
}

// Release returns a call that ends the agent's reservation of an issue.
func Release(issue string) Call { return Call{Issue: issue} }

// Notice returns a call that notifies all other agents of an event. payload must encode as JSON.
func Notice(eventType string, payload any) Call {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err) // payloads consist of strings
	}
	return Call{Key: rand.Text(), Type: eventType, Payload: raw}
}

// timeLeft returns the network time that the command has left.
func (b *Client) timeLeft() time.Duration { return b.settings.Timeout - b.spent }

// warnOnce prints the first warning of the command and drops later ones.
func (b *Client) warnOnce(format string, args ...any) {
	if !b.warned {
		b.warned = true
		b.warn("agent mail at " + b.name + " " + fmt.Sprintf(format, args...))
	}
}

// update changes the state of the server, unless change returns false. A failure to save it is a
// warning only.
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
		b.warnOnce("is used without its saved state: %s", b.quote(err.Error()))
	}
}

// Reserve reserves all of the issues or none. If another agent holds one, the error is a
// [*ReservedError]. Any other failure of the server is a warning, and the command goes on without a
// reservation.
func (b *Client) Reserve(ctx context.Context, issues ...string) error {
	if b == nil || len(issues) == 0 {
		return nil
	}
	b.needed = true
	b.addHolds(ctx, issues)
	b.Flush(ctx) // queued releases come first, so that others can reserve those issues
	for _, issue := range issues {
		if !b.disabled && b.timeLeft() <= 0 {
			b.disabled = true
			b.warnOnce("did not answer all requests within %s; going on without a reservation", b.settings.Timeout)
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

// addHolds records that the command is about to reserve issues. While another command is releasing one of the issues,
// addHolds waits, because a late release would end the new reservation.
func (b *Client) addHolds(ctx context.Context, issues []string) {
	const again = 5 * time.Millisecond
	for {
		wait := false
		b.update(ctx, func(s *server, now time.Time) bool {
			if off := s.activeBackoff(now); off != nil {
				b.skipServer(off, now)
			}
			releasing := slices.ContainsFunc(s.Queued, func(c Call) bool {
				return c.Agent == b.settings.Agent && slices.Contains(issues, c.Issue)
			})
			if wait = !b.disabled && releasing && s.busy(b.command, now); wait {
				return false
			}
			for _, issue := range issues {
				b.reserved[issue] = s.cancelRelease(b.settings.Agent, issue) // the server still has a cancelled release reserved
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
			b.warnOnce("is still receiving a release; going on without a reservation")
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

// skipServer makes the command continue without a server that is in backoff, and warns once.
func (b *Client) skipServer(off *backoff, now time.Time) {
	b.disabled = true
	if b.needed {
		b.warnOnce("%s; going on without it, retrying in %d s", off.Reason, int(off.Until.Sub(now).Seconds())+1)
	}
}

// onFailure makes the command continue without a server that has just failed, and starts the server's backoff.
func (b *Client) onFailure(ctx context.Context, r result) {
	b.disabled = true
	b.warnOnce("%s; going on without it", r.reason)
	b.update(ctx, func(s *server, now time.Time) bool {
		s.startBackoff(r.reason, r.retry, now)
		return true
	})
}

// ReleaseAll queues the release of everything that the command has reserved, because the command failed. Issues that
// another command of the same agent holds stay reserved.
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

// Enqueue appends calls to the queue that [Client.Flush] sends.
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
		b.warnOnce("was unreachable for so long that the %d oldest queued calls were dropped; %d remain", dropped, maxQueued)
	}
}

// stamp fills in the time, agent and project of a call.
func (b *Client) stamp(c Call, now time.Time) Call {
	c.At, c.Agent, c.Project = now.UTC(), b.settings.Agent, b.settings.Project
	return c
}
