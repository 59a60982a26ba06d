// Package webhook connects any program that can send and receive HTTP POST requests as a chat
// platform. Messages arrive as signed requests to this server, and replies are sent as signed
// requests to the program.
//
// Both directions use the signature scheme v1 (HMAC-SHA256 with a shared secret) of Standard
// Webhooks 1.0.0
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md). The
// webhook-id is the key of a message: a repeated inbound request is processed once, and an outbound
// request is repeated with the same id.
//
// There is no connection. The channel counts as connected while its secret is valid and this server
// listens; that does not prove that the program can reach the server.
package webhook

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/netguard"
)

// Kind is the name of this platform in configurations.
const Kind = "webhook"

// defaultRetryRefusedFor is the default of [Options].RetryRefusedFor.
const defaultRetryRefusedFor = 5 * time.Minute

// Options configure one program. Secret and Hooks are required.
type Options struct {
	// Secret returns the secrets, separated by white space. An inbound request must be signed with
	// one of them, and an outbound request is signed with all, so that a secret can be rotated. A
	// secret is whsec_ followed by Base64, or raw text, and has at least 24 bytes. It is called for
	// each request.
	Secret func() (string, error)
	Hooks  *Hooks // receives the inbound requests
	// URL receives outbound requests. It must use https unless it is a loopback address. "" sends
	// nothing.
	URL      string
	Insecure bool // permit http for other addresses
	// Policy restricts the addresses that the URL may resolve to.
	Policy netguard.Policy
	// Edits declares that the program can update messages it has received.
	Edits bool
	// Anybody lets every user talk that a signed request names. It is a part of the access policy of
	// a channel, and the connection does not use it.
	Anybody bool
	// Gap and EditGap are the intervals of the capabilities. They default to 0 and 1 s.
	Gap, EditGap time.Duration
	Timeout      time.Duration // of one request; defaults to 20 s
	// RetryRefusedFor is how long a message is retried that the receiver rejects with 3xx or 4xx,
	// other than 410. Standard Webhooks treats every status but 2xx as a failure to retry
	// (https://www.standardwebhooks.com). A reply delays those after it, so the period is short. It
	// defaults to 5 min.
	RetryRefusedFor time.Duration
}

// ReconnectPolicy returns the policy for this platform: without a connection there is no idle
// timeout.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	return channel.ReconnectPolicy{IdleTimeout: -1}
}

// Check validates the options except the secret.
func (o Options) Check() error {
	_, err := o.address()
	return err
}

// address returns the URL for outbound requests, or nil.
func (o Options) address() (*url.URL, error) {
	if o.URL == "" {
		return nil, nil
	}
	u, err := netguard.URL(o.URL, o.Insecure)
	if err == nil {
		err = o.Policy.CheckHost(u.Hostname())
	}
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return u, nil
}

func (o Options) secrets() (httpcall.Secrets, error) {
	text, err := o.Secret()
	if err != nil {
		return nil, err
	}
	return httpcall.ParseSecrets(text)
}

// Dial implements [chat.Dialer]. It makes no request.
func (o Options) Dial(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
	return o.dial(ctx, l, route{channel: l.Name()})
}

// DialReceiver is Dial for a server that may not run the channel. Hooks pass requests to such a connection only while
// this server has no connection of Dial.
func (o Options) DialReceiver(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
	return o.dial(ctx, l, route{channel: l.Name(), receiver: true})
}

func (o Options) dial(ctx context.Context, l *channel.Host, at route) (chat.Platform, chat.Capabilities, error) {
	address, err := o.address()
	if err == nil {
		_, err = o.secrets()
	}
	if err != nil {
		return nil, chat.Capabilities{}, channel.Fatal(err)
	}
	connCtx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // cancelled by Close
	c := &connection{
		options: o, host: l, route: at, address: address, ctx: connCtx, cancel: cancel,
		posts: make(chan inboundPost),
	}
	c.http = httpcall.New(httpcall.Options{Platform: "the receiver", Transport: o.Policy.Transport(),
		MaxResponse: maxResponse})
	o.Hooks.register(at, c)
	return c, c.capabilities(), nil
}

// connection is an open channel. It implements [chat.Platform].
type connection struct {
	// Set by Dial.
	options Options
	host    *channel.Host
	route   route
	address *url.URL // nil without a URL
	http    *httpcall.Client
	ctx     context.Context // cancelled by Close
	cancel  context.CancelFunc
	posts   chan inboundPost // to Receive
}

// inboundPost is a request that waits for its result.
type inboundPost struct {
	event  chat.Event
	result chan outcome // buffered for one result
}

// outcome is the result of a request.
type outcome struct {
	answer string
	err    error
}

// capabilities are the same for every connection.
func capabilities() chat.Capabilities {
	return chat.Capabilities{
		Platform: Kind, BotID: Kind, MaxUnits: mailroom.MaxText, Units: func(text string) int { return len(text) },
		Buttons: true, DedupWindow: math.MaxInt64,
	}
}

func (c *connection) capabilities() chat.Capabilities {
	t := capabilities()
	t.Edits, t.RoomInterval, t.EditInterval = c.options.Edits, c.options.Gap, cmp.Or(c.options.EditGap, time.Second)
	t.RefusalGrace = cmp.Or(c.options.RetryRefusedFor, defaultRetryRefusedFor)
	t.Directory = c.options.URL
	if c.address == nil {
		t.SendDisabled = "the channel has no url"
	}
	return t
}

// Receive implements [chat.Platform]. There is nothing to catch up: senders repeat a request until
// it is accepted.
func (c *connection) Receive(ctx context.Context, _ string, submit chat.EventHandler) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
			return c.ctx.Err()
		case p := <-c.posts:
			answer := ""
			p.event.AckInline = func(words string) { answer = words }
			err := submit(ctx, p.event)
			p.result <- outcome{answer, err}
			if err != nil {
				return err
			}
		}
	}
}

// AckButton implements [chat.Platform]. Events have AckInline instead: the response to a tap
// request contains the result.
func (c *connection) AckButton(context.Context, chat.Event, string) error { return nil }

// SetOpen implements [chat.Platform]. Files are never fetched.
func (c *connection) SetOpen(*chat.File) {}

// Maintain implements [chat.Platform].
func (c *connection) Maintain(context.Context) error { return nil }

// Close implements [chat.Platform].
func (c *connection) Close() error {
	c.options.Hooks.unregister(c)
	c.cancel()
	c.http.CloseIdleConnections()
	return nil
}
