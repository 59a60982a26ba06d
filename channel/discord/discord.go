// Package discord connects bots of Discord, by its gateway and its HTTP API, version 10
// (https://docs.discord.com/developers).
//
// Events come over a WebSocket and are numbered within a session, which a later
// connection of the same process can resume: it is asked for what follows the last
// event that was taken. A session that is lost, or of another process, is begun anew,
// and what was said meanwhile is read from the history of the channels. What comes
// twice is known by the ids of its messages.
//
// A message is sent with a nonce made of its key. For some minutes the platform answers
// a second one with the message that it has; after that it tells nobody what was sent
// with it.
package discord

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
)

// Kind is the name of this platform in configurations.
const Kind = "discord"

const (
	// DefaultAPI is where the platform answers.
	DefaultAPI = "https://discord.com/api/v10"
	// DefaultHeartbeat is the longest time between two heartbeats. The platform asks for
	// one about every 41 seconds.
	DefaultHeartbeat = 45 * time.Second
	// MaxMessage is how many units of UTF-16 a message has at most. The platform says 2000
	// characters; no way to count them finds more than this one.
	MaxMessage = 2000

	maxButtons    = 5                // in a row
	maxLabel      = 80               // characters on a button
	maxButtonData = 100              // characters that a button carries
	ackGrace      = 15 * time.Second // for the acknowledgement of a heartbeat
	callTimeout   = 20 * time.Second // for any call
	// nonceTTL is for how long a nonce is relied on. The documentation says that it is
	// looked for "in the past few minutes".
	nonceTTL = 2 * time.Minute
)

// Options are one bot. Token is needed.
type Options struct {
	// Token returns the bot's token. It is asked for with each try, so that one that
	// was mended is used.
	Token     func() (string, error)
	API       string        // address of the platform, with the version; "" is DefaultAPI
	Heartbeat time.Duration // between two heartbeats, unless the platform wants less; 0 is DefaultBeat
	// About is the address of a page about the bot, for the User-Agent; "" for none.
	About string
	// Gap and EditGap are those of the traits; 0 is 1 s and 2 s.
	Gap, EditGap time.Duration
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{{&o.Heartbeat, DefaultHeartbeat}, {&o.Gap, time.Second}, {&o.EditGap, 2 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.unset
		}
	}
	if o.API == "" {
		o.API = DefaultAPI
	}
}

// ReconnectPolicy is how this platform is kept going: each heartbeat is acknowledged in time, or
// the connection is not what it seems.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	o.setDefaults()
	return channel.ReconnectPolicy{IdleTimeout: o.Heartbeat + min(o.Heartbeat, ackGrace), ConnectTimeout: 2 * callTimeout}
}

// Bot is who a token belongs to.
type Bot struct {
	ID           string `json:"id"`
	Username     string `json:"username"`
	AppID        string `json:"-"` // id of the application, for the address that invites it
	ReadsContent bool   `json:"-"` // it may read what people write: the Message Content intent is on
}

// Flags of an application that may read what people write: of one in many servers,
// and of any other.
const (
	flagMessageContent        = 1 << 18
	flagMessageContentLimited = 1 << 19
)

// Identify asks the platform whose token it is.
func Identify(ctx context.Context, o Options) (Bot, error) {
	c, err := newClient(o, &rateLimits{})
	if err != nil {
		return Bot{}, err
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
	if err := c.call(ctx, request{op: "ask for the application", path: "/applications/@me", result: &app}); err != nil {
		return bot, connectionError(err)
	}
	bot.AppID, bot.ReadsContent = app.ID, app.Flags&(flagMessageContent|flagMessageContentLimited) != 0
	return bot, nil
}

// getBot asks whose the token is.
func (c *client) getBot(ctx context.Context) (bot Bot, err error) {
	return bot, c.call(ctx, request{op: "ask whose token it is", path: "/users/@me", result: &bot})
}

// Permissions that the bot needs: to see channels, to send there and in threads, and to
// read what was said while it was away.
const Permissions = 1<<10 | 1<<11 | 1<<38 | 1<<16

// Invite is the address at which somebody lets the bot into a server.
func (b Bot) Invite() string {
	return fmt.Sprintf("https://discord.com/oauth2/authorize?client_id=%s&scope=bot&permissions=%d", b.AppID, int64(Permissions))
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
	bot               Bot
	firstEvent        *frame // the event with which the platform let it in
	ctx               context.Context
	cancel            context.CancelCauseFunc // with why nothing more can come of it
	session           session                 // owned by Receive from then on

	lastSeq atomic.Int64 // number of the last event that was taken, for heartbeats
	acked   atomic.Bool  // the last heartbeat was acknowledged

	// Owned by Receive.
	cursor   cursor
	backfill backfill

	// Owned by mu.
	mu           sync.Mutex
	interactions map[string]*pendingPress // by the id of the interaction
}

// Dialer is the [chat.Dialer] of one bot. Its connections share what one of them has
// learnt: the session that the next one resumes, and which channel a thread is of.
func (o Options) Dialer() chat.Dialer {
	o.setDefaults()
	m := newSharedState()
	return func(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
		m.markStart(time.Now())
		client, err := newClient(o, &m.limits)
		if err != nil {
			return nil, chat.Capabilities{}, err
		}
		life, end := context.WithCancelCause(context.WithoutCancel(ctx)) // ends with Close
		c := &connection{
			options: o, client: client, host: l, shared: m, ctx: life, cancel: end, interactions: map[string]*pendingPress{},
		}
		if err := c.connect(ctx); err != nil {
			client.http.CloseIdleConnections()
			end(nil)
			return nil, chat.Capabilities{}, connectionError(err)
		}
		m.setOwner(c)
		return c, c.capabilities(), nil
	}
}

func (c *connection) capabilities() chat.Capabilities {
	return chat.Capabilities{
		Platform: Kind, BotID: c.bot.ID, BotName: c.bot.Username,
		MaxUnits: MaxMessage, Units: utf16Units, Edits: true, Buttons: true, Typing: true, CommandPrefix: "!",
		RoomInterval: c.options.Gap, EditInterval: c.options.EditGap,
		ResendBehavior: "recognised for some minutes; after that a message may come twice after a crash, and is marked", DedupWindow: nonceTTL,
	}
}

// Close implements [chat.Platform]. The session goes on at the platform, so that it can
// be resumed.
func (c *connection) Close() error {
	c.cancel(nil)
	c.socket.close()
	c.client.http.CloseIdleConnections()
	return nil
}

// bindContext is ctx, which ends with the connection too.
func (c *connection) bindContext(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// connectionError gives an error of connecting or receiving the meaning that it has for the
// channel.
func connectionError(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*apiError](err); ok && e.subject() == subjectToken {
		return channel.Fatal(fmt.Errorf("the bot's token is refused (401 %s): get the present one from the Developer Portal, under Bot", e.description))
	}
	e, ok := errors.AsType[*gatewayCloseError](err)
	if !ok {
		return unavailable(err)
	}
	switch e.code {
	case 4004:
		return channel.Fatal(errors.New("the bot's token is refused (4004): get the present one from the Developer Portal, under Bot"))
	case 4014:
		return channel.Fatal(errors.New("the bot may not read what people write (4014): turn the Message Content intent on in the Developer Portal, under Bot"))
	case 4011:
		return channel.Fatal(errors.New("the bot is in too many servers for one connection (4011)"))
	case 4010, 4012, 4013:
		return channel.Fatal(fmt.Errorf("the platform does not take what this program says of the bot: %w", err))
	}
	return unavailable(err)
}

// CheckToken refuses what cannot be a token. It does not say what it was.
func CheckToken(token string) error {
	if !tokenPattern.MatchString(token) {
		return errors.New("this is no token of a Discord bot: it has three parts with dots between them, as the Developer Portal gives it under Bot")
	}
	return nil
}

var tokenPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{18,64}\.[A-Za-z0-9_-]{4,16}\.[A-Za-z0-9_-]{20,100}$`)
