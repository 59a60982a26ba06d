// Package target has the kinds of targets of alerts: a chat of a channel, a program ([Webhook]), a topic of an ntfy
// server ([Ntfy]) and the browsers that subscribed ([Push]). Mail has a package of its own, because it is a client of
// SMTP, and the others post one HTTP request.
//
// A [Kind] describes a kind as one value: its settings, how to open a target, how to add one, and what the manual
// says. The configuration and the commands are derived from it, so they have no code for a single kind.
package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"mailroom/alert"
	"mailroom/channel/httpcall"
	"mailroom/channel/kind"
	"mailroom/internal/netguard"
	"mailroom/internal/setting"
)

// Kind is a kind of target.
type Kind struct {
	Name string // value of the key kind
	// New returns the settings of a new target, with their defaults.
	New func() *Settings

	// Texts for the manual.
	AfterCrash string // what becomes of an alert that was sent before a crash
	Leaves     string // what leaves the machine, and where it goes
	// Own says that such a target is usually the operator's own, so a rule that a command adds for it sends the
	// full text, with buttons that approve.
	Own bool
}

// Kinds are the kinds that a configuration may name.
type Kinds struct {
	Channels []kind.Kind
	Targets  []Kind
}

// Settings are the settings of one target, beside those that every target has.
type Settings struct {
	Keys []setting.Setting
	// Check returns an error that says which settings do not fit together. All required ones are set.
	// nil accepts all.
	Check func() error
	// Open returns the target with a name. It connects to nothing, and reads secrets with each message, so
	// that a corrected one takes effect. nil: the target is a part of the server, and the server creates it.
	Open func(name string) (alert.Target, error)
	// Shared says that the target has subscribers, see [alert.Spreader]. Only the operator's alerts go there.
	Shared bool
	// Chat is the conversation whose chat is the target. It is nil for targets of other kinds.
	Chat *string
	// MaxBody is how many characters the target shows at most.
	MaxBody int
	// Setup says how a command adds such a target. Its probe sends a test message.
	Setup *kind.Setup
}

// Address is the URL that a target posts to, with the networks that it may be in. Only addresses that are
// public, or allowed, are connected to, whatever a name resolves to.
type Address struct {
	URL      string
	Insecure bool
	policy   netguard.Policy
}

// Settings returns the keys of an address. what describes the URL for the documentation.
func (a *Address) Settings(key, what, example string) []setting.Setting {
	return append([]setting.Setting{
		setting.New(key, what, setting.Value{
			Set: func(v any) error {
				s, isText := v.(string)
				if !isText {
					return setting.Invalid(v, "a URL such as "+example)
				}
				if _, err := netguard.URL(s, true); s != "" && err != nil {
					return err
				}
				a.URL = s
				return nil
			},
			Get: func() any { return a.URL },
		}),
	}, a.Networks()...)
}

// Networks returns the keys that say where an address may be. It is Settings without the key of the URL.
func (a *Address) Networks() []setting.Setting {
	return []setting.Setting{
		setting.New("insecure", "Allow http for other machines than this one.", setting.Bool(&a.Insecure)),
		Allow(&a.policy),
	}
}

// Allow returns the key of the private networks that a target may be in. Its value is stored in p.
func Allow(p *netguard.Policy) setting.Setting {
	var texts []string
	networks := setting.List(&texts)
	return setting.New("allow", `Private networks and addresses that may be used, such as "10.0.0.0/8".`, setting.Value{
		Set: func(given any) (err error) {
			if err = networks.Set(given); err == nil {
				p.Allow, err = netguard.Prefixes(texts)
			}
			return err
		},
		Get: networks.Get,
	})
}

// Allow adds networks that may be used.
func (a *Address) Allow(more ...netip.Prefix) { a.policy.Allow = append(a.policy.Allow, more...) }

// Resolve sets the resolver of names. The default is the machine's resolver.
func (a *Address) Resolve(r *net.Resolver) { a.policy.Resolver = r }

// ErrNotAllowed is in the tree of the error of an address that is not public.
var ErrNotAllowed = errors.New("to use it, add it to the setting allow")

// Check parses the URL, and checks its host without resolving it.
func (a *Address) Check() (*url.URL, error) {
	u, err := netguard.URL(a.URL, a.Insecure)
	if err != nil {
		return nil, err
	}
	if err := a.policy.CheckHost(u.Hostname()); err != nil {
		return nil, fmt.Errorf("%w; %w", err, ErrNotAllowed)
	}
	return u, nil
}

// Client returns a client that posts to the address and connects to nothing that the policy refuses. service is the
// name of the receiver in errors.
func (a *Address) Client(service string, secrets ...string) *httpcall.Client {
	return httpcall.New(httpcall.Options{
		Platform: service, API: "its API", Secrets: secrets, MaxResponse: maxResponse, Transport: a.policy.Transport(),
	})
}

const (
	maxResponse = 64 << 10 // bytes read of an answer
	sendTimeout = 20 * time.Second
)

// Post makes a call that sends a message, and classifies its failure. A message that may have arrived is
// mailroom.ErrUnknown. Refused credentials are an outage, because an operator can correct them; any other
// refusal is permanent, unless it asks to come back. hide are secrets that the error must not quote.
func Post(ctx context.Context, client *httpcall.Client, r httpcall.Request, hide ...string) (httpcall.Response, error) {
	r.Method = http.MethodPost
	a, err := client.Do(ctx, r)
	switch {
	case a.Status >= 200 && a.Status < 300:
		return a, nil // the status says that the server accepted it, even if the answer was cut off after it
	case a.Status != 0:
		refused := client.Refuse(r.Op, a)
		refused.Text = http.StatusText(a.Status)
		if words := httpcall.Quote(a.Body, hide); words != "" {
			refused.Text += ": " + words
		}
		if a.Status >= 300 && a.Status < 400 {
			refused.Text += ": redirects are not followed: set the final address"
		}
		err = refused
	}
	return a, httpcall.SendError(err, classOf)
}

func classOf(e *httpcall.Refusal) httpcall.Class {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusRequestTimeout, http.StatusTooEarly,
		http.StatusUnauthorized, http.StatusForbidden:
		return httpcall.ClassUnavailable
	}
	if e.Status >= 500 || e.Status < 300 {
		return httpcall.ClassUnknown
	}
	return httpcall.ClassPermanent
}
