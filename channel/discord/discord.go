// Package discord connects Discord bots by the gateway and the HTTP API, version 10
// (https://docs.discord.com/developers).
//
// Events arrive over a WebSocket and are numbered within a session. A later connection of the
// same process resumes the session after the last event that was committed. When the session is
// lost, or the process was restarted, a new session begins, and messages sent in between are
// read from the histories of the channels. Redelivered messages are recognised by their ids.
//
// A message is sent with a nonce derived from its key. For some minutes Discord answers a
// second message with the same nonce with the first one; after that, the nonce cannot be looked
// up.
package discord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/lazyregexp"
)

// Kind is the name of this platform in configurations.
const Kind = "discord"

const (
	// DefaultAPI is the base URL of the HTTP API.
	DefaultAPI = "https://discord.com/api/v10"
	// DefaultHeartbeat is the longest time between two heartbeats. Discord asks for about 41
	// seconds.
	DefaultHeartbeat = 45 * time.Second
	// MaxMessage is the length limit of a message, in UTF-16 code units. Discord documents 2000
	// characters without saying how it counts; no other count is larger.
	MaxMessage = 2000

	maxButtons    = 5                // most buttons in a row
	maxUpload     = 10 << 20         // bytes of a file (API reference, "Uploading Files")
	maxLabel      = 80               // characters of a button's label
	maxButtonData = 100              // characters of a button's custom id
	ackGrace      = 15 * time.Second // how late a heartbeat may be acknowledged
	callTimeout   = 20 * time.Second // timeout of any call
	// nonceTTL is how long a nonce is relied on. Discord checks it for "the past few minutes".
	nonceTTL = 2 * time.Minute
)

// Options configures one bot. Token is required.
type Options struct {
	// Token returns the bot's token. It is called for each connection attempt, so a corrected
	// token takes effect without a restart.
	Token     func() (string, error)
	API       string        // base URL of the HTTP API, with its version; "" means DefaultAPI
	Heartbeat time.Duration // longest time between two heartbeats; 0 means DefaultHeartbeat
	// About is the URL of a page about the bot, for the User-Agent; "" for none.
	About string
	// RoomInterval and EditInterval are the pauses in [chat.Capabilities]. 0 means 1 s and 2 s.
	RoomInterval, EditInterval time.Duration
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{{&o.Heartbeat, DefaultHeartbeat}, {&o.RoomInterval, time.Second}, {&o.EditInterval, 2 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.unset
		}
	}
	if o.API == "" {
		o.API = DefaultAPI
	}
}

// ReconnectPolicy returns the platform's timeouts: a connection without an acknowledged
// heartbeat for that long is considered dead.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	o.setDefaults()
	return channel.ReconnectPolicy{IdleTimeout: o.Heartbeat + min(o.Heartbeat, ackGrace), ConnectTimeout: 2 * callTimeout}
}

// account is the bot that a token belongs to.
type account struct {
	ID           string `json:"id"`
	Username     string `json:"username"`
	AppID        string `json:"-"` // application id, for [account.invite]
	ReadsContent bool   `json:"-"` // the Message Content intent is on
}

// Application flags of the Message Content intent: of an application in 100 or more servers,
// and of a smaller one.
const (
	flagMessageContent        = 1 << 18
	flagMessageContentLimited = 1 << 19
)

// identify returns the bot that the token belongs to.
func identify(ctx context.Context, o Options) (account, error) {
	c, err := newClient(o, &rateLimits{})
	if err != nil {
		return account{}, err
	}
	defer c.http.CloseIdleConnections()
	bot, err := c.getBot(ctx)
	if err != nil {
		return bot, connectionError(err)
	}
	var app struct {
		ID    string `json:"id"`
		Flags int64  `json:"flags"`
	}
	if err := c.call(ctx, request{op: "get application", path: "/applications/@me", result: &app}); err != nil {
		return bot, connectionError(err)
	}
	bot.AppID, bot.ReadsContent = app.ID, app.Flags&(flagMessageContent|flagMessageContentLimited) != 0
	return bot, nil
}

// getBot returns the bot that the token belongs to.
func (c *client) getBot(ctx context.Context) (bot account, err error) {
	return bot, c.call(ctx, request{op: "get bot identity", path: "/users/@me", result: &bot})
}

// permissions are the permissions that the bot needs: view channels, send messages, send
// messages in threads, and read message history.
const permissions = 1<<10 | 1<<11 | 1<<38 | 1<<16

// invite returns the URL at which the admin of a server adds the bot to it.
func (b account) invite() string {
	return fmt.Sprintf("https://discord.com/oauth2/authorize?client_id=%s&scope=bot&permissions=%d", b.AppID,
		int64(permissions))
}

// connection is one connection of a bot. It implements [chat.Platform].
type connection struct {
	// Set by Dial.
	options           Options
	client            *client
	host              *channel.Host
	shared            *sharedState
	socket            *socket
	heartbeatInterval time.Duration // between two heartbeats
	bot               account
	firstEvent        *frame // the event that completed the handshake
	ctx               context.Context
	cancel            context.CancelCauseFunc // called with the error that ended the connection
	session           session                 // owned by Receive once it runs

	lastSeq atomic.Int64 // number of the last event handled, for heartbeats
	acked   atomic.Bool  // Discord acknowledged the last heartbeat

	// Owned by Receive.
	cursor   cursor
	backfill backfill

	// Owned by mu.
	mu           sync.Mutex
	interactions map[string]*pendingPress // pending presses by interaction id
}

// Dialer returns the [chat.Dialer] of one bot. Its connections share the session that the next
// one resumes, and the parents of threads.
func (o Options) Dialer() chat.Dialer {
	o.setDefaults()
	m := newSharedState()
	return func(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
		m.markStart(time.Now())
		client, err := newClient(o, &m.limits)
		if err != nil {
			return nil, chat.Capabilities{}, err
		}
		connCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // cancelled by Close
		c := &connection{
			options: o, client: client, host: l, shared: m, ctx: connCtx, cancel: cancel,
			interactions: map[string]*pendingPress{},
		}
		if err := c.connect(ctx); err != nil {
			client.http.CloseIdleConnections()
			cancel(nil)
			return nil, chat.Capabilities{}, connectionError(err)
		}
		m.setOwner(c)
		return c, c.capabilities(), nil
	}
}

// capabilities are the same for every connection.
func capabilities() chat.Capabilities {
	return chat.Capabilities{
		Platform: Kind, MaxUnits: MaxMessage, Units: utf16Units, MaxUpload: maxUpload, Edits: true, Buttons: true,
		Typing: true, CommandPrefix: "!",
		DedupWindow: nonceTTL,
	}
}

func (c *connection) capabilities() chat.Capabilities {
	t := capabilities()
	t.BotID, t.BotName = c.bot.ID, c.bot.Username
	t.RoomInterval, t.EditInterval = c.options.RoomInterval, c.options.EditInterval
	return t
}

// Close implements [chat.Platform]. The session stays open at Discord, so that it can be
// resumed.
func (c *connection) Close() error {
	c.cancel(nil)
	c.socket.close()
	c.client.http.CloseIdleConnections()
	return nil
}

// connectionError classifies an error of connecting or receiving: a rejected token or intent is
// fatal, and anything else is retried.
func connectionError(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && subjectOf(e) == subjectToken {
		return channel.Fatal(fmt.Errorf("token rejected (401 %s): get the current token from the Developer Portal, under Bot",
			e.Text))
	}
	e, ok := errors.AsType[*gatewayCloseError](err)
	if !ok {
		return httpcall.Unavailable(err)
	}
	switch e.code {
	case 4004:
		return channel.Fatal(errors.New("token rejected (4004): get the current token from the Developer Portal, under Bot"))
	case 4014:
		return channel.Fatal(
			errors.New(
				"the bot cannot read messages (4014): turn on the Message Content intent in the Developer Portal, under Bot"))
	case 4011:
		return channel.Fatal(errors.New("the bot is in too many servers for one connection (4011)"))
	case 4010, 4012, 4013:
		return channel.Fatal(fmt.Errorf("connection parameters rejected by Discord: %w", err))
	}
	return httpcall.Unavailable(err)
}

// checkToken rejects a string that cannot be a token. The error does not contain the string.
func checkToken(token string) error {
	if !tokenPattern().MatchString(token) {
		return errors.New(
			"not a Discord bot token: copy it from the Developer Portal, under Bot; it has three parts separated by dots")
	}
	return nil
}

var tokenPattern = lazyregexp.New(`^[A-Za-z0-9_-]{18,64}\.[A-Za-z0-9_-]{4,16}\.[A-Za-z0-9_-]{20,100}$`)
