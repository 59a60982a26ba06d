// Package matrix connects Matrix accounts through the Client-Server API
// (https://spec.matrix.org/v1.11/client-server-api/).
//
// The adapter receives events by long polls of /sync. It saves a sync token only after it has
// submitted every event of the response; an event that arrives twice is recognized by its id.
// Events that a response omits are read from /messages.
//
// Each message carries its delivery key, so the room's history shows whether it was sent. The
// transaction id is derived from the key too: a homeserver that remembers it returns the existing
// event.
//
// Encrypted rooms are not supported.
package matrix

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// Kind is the name of this platform in configurations.
const Kind = "matrix"

const exampleHomeserver = "https://matrix.example.org"

const (
	// DefaultPoll is how long the homeserver holds a poll open.
	DefaultPoll = 20 * time.Second
	// DefaultGap and DefaultEditGap are the minimum intervals between two messages and between two
	// edits of one message. Homeservers allow an account about one event in 5 s in the long run,
	// and an edit is an event.
	DefaultGap     = time.Second
	DefaultEditGap = 6 * time.Second
	// MaxMessage bounds the text of one message, in bytes of JSON. An event may have 65,536 bytes
	// including what the homeserver adds, and an edit contains the text twice and once as HTML
	// (https://spec.matrix.org/v1.11/client-server-api/#size-limits).
	MaxMessage = 16 << 10

	maxHTML     = 24 << 10         // bytes of JSON; longer texts are sent without HTML
	callTimeout = 20 * time.Second // timeout of any call but a poll
	pollGrace   = 15 * time.Second // time for the response after a poll's own timeout
)

// Options configure one account. Homeserver and Token are required.
type Options struct {
	Homeserver string // base URL, such as https://matrix.example.org
	// Token returns the account's access token. It is called for each connection, so a replaced
	// token takes effect.
	Token func() (string, error)
	Poll  time.Duration // defaults to DefaultPoll
	// Gap and EditGap are the intervals of the capabilities; they default to DefaultGap and
	// DefaultEditGap.
	Gap, EditGap time.Duration
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{{&o.Poll, DefaultPoll}, {&o.Gap, DefaultGap}, {&o.EditGap, DefaultEditGap}} {
		if *d.value <= 0 {
			*d.value = d.unset
		}
	}
}

// ReconnectPolicy returns the policy for this platform: a poll without a response in time means
// that the connection is dead.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	o.setDefaults()
	return channel.ReconnectPolicy{IdleTimeout: o.Poll + min(o.Poll, pollGrace), ConnectTimeout: 2 * callTimeout}
}

// account is the bot that a token belongs to.
type account struct {
	ID     string `json:"user_id"` // such as @bot:example.org
	Device string `json:"device_id"`
	Name   string `json:"-"` // display name
}

// Dial implements [chat.Dialer].
func (o Options) Dial(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
	o.setDefaults()
	c, err := newClient(o)
	if err != nil {
		return nil, chat.Capabilities{}, err
	}
	bot, err := c.getBot(ctx)
	if err != nil {
		c.http.CloseIdleConnections()
		return nil, chat.Capabilities{}, connectionError(err)
	}
	connCtx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // cancelled by Close
	conn := &connection{
		options: o, client: c, bot: bot, mention: newMentionMatcher(bot), host: l, ctx: connCtx, cancel: cancel,
		roomMembers: map[string]roomMembers{}, threads: map[string]string{},
	}
	return conn, conn.capabilities(), nil
}

func (c *client) getBot(ctx context.Context) (bot account, err error) {
	const op = "identify token"
	if err := c.call(ctx, request{op: op, method: http.MethodGet, path: []string{"account", "whoami"}}, &bot,
		callTimeout); err != nil {
		return bot, err
	}
	if !strings.HasPrefix(bot.ID, "@") || !strings.Contains(bot.ID, ":") {
		return bot, &httpcall.TransportError{Op: op, Reason: "response contains no user id"}
	}
	var profile struct {
		Name string `json:"displayname"`
	}
	err = c.call(ctx, request{op: "read display name", method: http.MethodGet,
		path: []string{"profile", bot.ID, "displayname"}}, &profile, callTimeout)
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && (e.Status == http.StatusNotFound ||
		e.Status == http.StatusForbidden) {
		err = nil // the bot has no display name
	}
	if bot.Name = strings.TrimSpace(profile.Name); bot.Name == "" {
		bot.Name = localpart(bot.ID)
	}
	return bot, err
}

// localpart returns the part of a user id before the server name.
func localpart(user string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(user, "@"), ":")
	return name
}

// connection is one connection of an account. It implements [chat.Platform].
type connection struct {
	// Set by Dial.
	options Options
	client  *client
	bot     account
	mention mentionMatcher
	host    *channel.Host
	ctx     context.Context // cancelled by Close
	cancel  context.CancelFunc

	// Owned by mu.
	mu          sync.Mutex
	roomMembers map[string]roomMembers // each map is owned by the room's current reader
	threads     map[string]string      // thread roots of the latest messages in threads, by event id
	threadOrder []string               // the keys of threads, oldest first
}

// capabilities are the same for every connection.
func capabilities() chat.Capabilities {
	return chat.Capabilities{Platform: Kind, MaxUnits: MaxMessage, Units: jsonBytes, MaxUpload: maxUpload, Edits: true,
		Typing: true, CommandPrefix: "!"}
}

func (c *connection) capabilities() chat.Capabilities {
	t := capabilities()
	t.BotID, t.BotName = c.bot.ID, c.bot.Name
	t.RoomInterval, t.EditInterval = c.options.Gap, c.options.EditGap
	return t
}

// Maintain implements [chat.Platform]. The adapter needs no maintenance.
func (c *connection) Maintain(context.Context) error { return nil }

// Close implements [chat.Platform].
func (c *connection) Close() error {
	c.cancel()
	c.client.http.CloseIdleConnections()
	return nil
}

// observedCall makes a call for the receiver. A successful response proves that the connection is
// alive.
func (c *connection) observedCall(ctx context.Context, r request, out any, timeout time.Duration) error {
	err := c.client.call(ctx, r, out, timeout)
	if err == nil {
		c.host.Received()
	}
	return err
}

// connectionError classifies an error of connecting or receiving for the channel.
func connectionError(err error) error {
	if err == nil {
		return nil
	}
	if !isFatal(err) {
		return httpcall.Unavailable(err)
	}
	e, _ := errors.AsType[*httpcall.Refusal](err)
	switch {
	case e.Code == "M_USER_DEACTIVATED":
		return channel.Fatal(fmt.Errorf("the bot's account is deactivated (%d %s)", e.Status, e.Text))
	case e.Code == "M_CONSENT_NOT_GIVEN":
		return channel.Fatal(fmt.Errorf("the homeserver requires consent to its terms: %w", err))
	case e.Detail == softLogout:
		return channel.Fatal(fmt.Errorf("the bot's access token expired (%d %s): log in again to get a new one",
			e.Status, e.Text))
	}
	return channel.Fatal(fmt.Errorf("the bot's access token was rejected (%d %s): log in again to get a new one",
		e.Status, e.Text))
}

// isFatal reports whether a retry cannot succeed.
func isFatal(err error) bool {
	e, ok := errors.AsType[*httpcall.Refusal](err)
	if !ok {
		return false
	}
	switch e.Code {
	case "M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_CONSENT_NOT_GIVEN":
		return true
	}
	return false
}
