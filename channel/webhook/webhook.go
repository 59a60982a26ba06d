// Package webhook makes a chat platform of any program that can POST: what it says comes
// as signed requests to this server, and what it is told goes to it as signed requests.
//
// Both ways are signed by the scheme of Standard Webhooks 1.0.0
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md),
// with a shared secret (v1, HMAC-SHA256). The webhook-id is the key of a message in both
// directions: what comes twice under one is taken once, and what is sent again has the
// one that it had.
//
// There is no connection. A channel is there as long as its secret can be read and this
// server listens; that somebody could reach it is known only when somebody has.
package webhook

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/internal/vet"
)

// Kind is the name of this platform in configurations.
const Kind = "webhook"

// defaultRetryRefusedFor is the default of [Options].Patience.
const defaultRetryRefusedFor = 5 * time.Minute

// Options are one program. Secret and Hooks are needed.
type Options struct {
	// Secret returns the secrets, with white space between them: each request that comes
	// is to be signed with one of them, and each that goes out is signed with all, so
	// that one can be changed for another. One has the form whsec_ and Base64, or is
	// what it is; it has at least 24 bytes. It is asked for with each request.
	Secret func() (string, error)
	Hooks  *Hooks // where requests come in
	// URL is where messages are sent, of https unless it is this machine's; "": none
	// are sent.
	URL      string
	Insecure bool // other addresses may be of http too
	// Policy says which addresses the URL may stand for.
	Policy vet.Policy
	// Edits says that the program can change messages that it has got.
	Edits bool
	// Gap and EditGap are those of the traits; 0 is none, and 1 s.
	Gap, EditGap time.Duration
	Timeout      time.Duration // for one request; 0 is 20 s
	// RetryRefusedFor is for how long a message is posted again that the receiver refuses with
	// 4xx or 3xx, other than 410. Standard Webhooks counts each answer but 2xx as a
	// failure that is retried (https://www.standardwebhooks.com); a reply holds up those
	// behind it, so it is not for days here. 0 is 5 min.
	RetryRefusedFor time.Duration
}

// ReconnectPolicy is how this platform is kept going: nothing has to be heard.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	return channel.ReconnectPolicy{IdleTimeout: -1}
}

// Check returns what is wrong with the options, but for the secret.
func (o Options) Check() error {
	_, err := o.address()
	return err
}

// address is where messages are sent; nil: nowhere.
func (o Options) address() (*url.URL, error) {
	if o.URL == "" {
		return nil, nil
	}
	u, err := vet.URL(o.URL, o.Insecure)
	if err == nil {
		err = o.Policy.CheckHost(u.Hostname())
	}
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return u, nil
}

func (o Options) secrets() (secrets, error) {
	text, err := o.Secret()
	if err != nil {
		return nil, err
	}
	return parseSecrets(text)
}

// Dial implements [chat.Dialer]. It asks nobody.
func (o Options) Dial(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
	address, err := o.address()
	if err == nil {
		_, err = o.secrets()
	}
	if err != nil {
		return nil, chat.Capabilities{}, channel.Fatal(err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // ends with Close
	c := &connection{
		options: o, host: l, address: address, ctx: life, cancel: end,
		posts: make(chan inboundPost),
	}
	c.http = &http.Client{
		Transport: o.Policy.Transport(),
		// A redirect would take a message to where nobody said that it should go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	o.Hooks.register(l.Name(), c)
	return c, c.capabilities(), nil
}

// connection is the channel as long as it is there. It implements [chat.Platform].
type connection struct {
	// Set by Dial.
	options Options
	host    *channel.Host
	address *url.URL // nil: nothing is sent
	http    *http.Client
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	posts   chan inboundPost // to Receive
}

// inboundPost is a request on its way to being taken.
type inboundPost struct {
	event  chat.Event
	result chan outcome // has room for it
}

// outcome is what became of a post.
type outcome struct {
	answer string
	err    error
}

func (c *connection) capabilities() chat.Capabilities {
	t := chat.Capabilities{
		Platform: Kind, BotID: Kind, MaxUnits: mailroom.MaxText, Units: func(text string) int { return len(text) },
		Edits: c.options.Edits, Buttons: true, RoomInterval: c.options.Gap, EditInterval: cmp.Or(c.options.EditGap, time.Second),
		ResendBehavior: "sent again with the same webhook-id, by which the receiver is to know it",
		DedupWindow:    math.MaxInt64, RefusalGrace: cmp.Or(c.options.RetryRefusedFor, defaultRetryRefusedFor),
	}
	if c.address == nil {
		t.SendDisabled = "the channel has no url"
	}
	return t
}

// Receive implements [chat.Platform]. Who posts something posts it again unless it was
// told that it was taken, so there is nothing to catch up with.
func (c *connection) Receive(ctx context.Context, _ string, take chat.EventHandler) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
			return c.ctx.Err()
		case p := <-c.posts:
			answer := ""
			p.event.AckInline = func(words string) { answer = words }
			err := take(ctx, p.event)
			p.result <- outcome{answer, err}
			if err != nil {
				return err
			}
		}
	}
}

// AckButton implements [chat.Platform]. Events have Told: the answer to the request that brought
// a tap says what came of it.
func (c *connection) AckButton(context.Context, chat.Event, string) error { return nil }

// SetOpen implements [chat.Platform]. A file is never fetched.
func (c *connection) SetOpen(*chat.File) {}

// Maintain implements [chat.Platform].
func (c *connection) Maintain(context.Context) error { return nil }

// Close implements [chat.Platform].
func (c *connection) Close() error {
	c.options.Hooks.unregister(c.host.Name(), c)
	c.cancel()
	c.http.CloseIdleConnections()
	return nil
}
