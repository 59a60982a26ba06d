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
	// DefaultBeat is the longest time between two heartbeats. The platform asks for
	// one about every 41 seconds.
	DefaultBeat = 45 * time.Second
	// Most is how many units of UTF-16 a message has at most. The platform says 2000
	// characters; no way to count them finds more than this one.
	Most = 2000

	mostButtons = 5                // in a row
	mostLabel   = 80               // characters on a button
	mostData    = 100              // characters that a button carries
	patience    = 15 * time.Second // for the acknowledgement of a heartbeat
	callTime    = 20 * time.Second // for any call
	// known is for how long a nonce is relied on. The documentation says that it is
	// looked for "in the past few minutes".
	known = 2 * time.Minute
)

// Options are one bot. Token is needed.
type Options struct {
	// Token returns the bot's token. It is asked for with each try, so that one that
	// was mended is used.
	Token func() (string, error)
	API   string        // address of the platform, with the version; "" is DefaultAPI
	Beat  time.Duration // between two heartbeats, unless the platform wants less; 0 is DefaultBeat
	// About is the address of a page about the bot, for the User-Agent; "" for none.
	About string
	// Gap and EditGap are those of the traits; 0 is 1 s and 2 s.
	Gap, EditGap time.Duration
}

func (o *Options) fill() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{{&o.Beat, DefaultBeat}, {&o.Gap, time.Second}, {&o.EditGap, 2 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.unset
		}
	}
	if o.API == "" {
		o.API = DefaultAPI
	}
}

// Pace is how this platform is kept going: each heartbeat is acknowledged in time, or
// the connection is not what it seems.
func (o Options) Pace() channel.ReconnectPolicy {
	o.fill()
	return channel.ReconnectPolicy{Fresh: o.Beat + min(o.Beat, patience), Connect: 2 * callTime}
}

// Bot is who a token belongs to.
type Bot struct {
	ID       string `json:"id"`
	Username string `json:"username"`
	App      string `json:"-"` // id of the application, for the address that invites it
	Reads    bool   `json:"-"` // it may read what people write: the Message Content intent is on
}

// Flags of an application that may read what people write: of one in many servers,
// and of any other.
const (
	flagReads        = 1 << 18
	flagReadsLimited = 1 << 19
)

// Ask asks the platform whose token it is.
func Ask(ctx context.Context, o Options) (Bot, error) {
	c, err := newClient(o, &limits{})
	if err != nil {
		return Bot{}, err
	}
	defer c.http.CloseIdleConnections()
	bot, err := c.who(ctx)
	if err != nil {
		return bot, trouble(err)
	}
	var app struct {
		ID    string `json:"id"`
		Flags int64  `json:"flags"`
	}
	if err := c.call(ctx, call{what: "ask for the application", path: "/applications/@me", out: &app}); err != nil {
		return bot, trouble(err)
	}
	bot.App, bot.Reads = app.ID, app.Flags&(flagReads|flagReadsLimited) != 0
	return bot, nil
}

// who asks whose the token is.
func (c *client) who(ctx context.Context) (bot Bot, err error) {
	return bot, c.call(ctx, call{what: "ask whose token it is", path: "/users/@me", out: &bot})
}

// Permissions that the bot needs: to see channels, to send there and in threads, and to
// read what was said while it was away.
const Permissions = 1<<10 | 1<<11 | 1<<38 | 1<<16

// Invite is the address at which somebody lets the bot into a server.
func (b Bot) Invite() string {
	return fmt.Sprintf("https://discord.com/oauth2/authorize?client_id=%s&scope=bot&permissions=%d", b.App, int64(Permissions))
}

// connection is one connection of a bot. It implements [chat.Platform].
type connection struct {
	// Set by Dial.
	options  Options
	client   *client
	link     *channel.Host
	memory   *memory
	socket   *socket
	interval time.Duration // between two heartbeats
	bot      Bot
	first    *frame // the event with which the platform let it in
	life     context.Context
	end      context.CancelCauseFunc // with why nothing more can come of it
	session  session                 // owned by Receive from then on

	received atomic.Int64 // number of the last event that was taken, for heartbeats
	acked    atomic.Bool  // the last heartbeat was acknowledged

	// Owned by Receive.
	at   reading
	past past

	// Owned by mu.
	mu   sync.Mutex
	taps map[string]*tap // by the id of the interaction
}

// Dialer is the [chat.Dialer] of one bot. Its connections share what one of them has
// learnt: the session that the next one resumes, and which channel a thread is of.
func (o Options) Dialer() chat.Dialer {
	o.fill()
	m := newMemory()
	return func(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
		m.begin(time.Now())
		client, err := newClient(o, &m.limits)
		if err != nil {
			return nil, chat.Capabilities{}, err
		}
		life, end := context.WithCancelCause(context.WithoutCancel(ctx)) // ends with Close
		c := &connection{
			options: o, client: client, link: l, memory: m, life: life, end: end, taps: map[string]*tap{},
		}
		if err := c.open(ctx); err != nil {
			client.http.CloseIdleConnections()
			end(nil)
			return nil, chat.Capabilities{}, trouble(err)
		}
		m.owns(c)
		return c, c.traits(), nil
	}
}

func (c *connection) traits() chat.Capabilities {
	return chat.Capabilities{
		Platform: Kind, Bot: c.bot.ID, Name: c.bot.Username,
		Most: Most, Units: units, Edits: true, Buttons: true, Types: true, Sign: "!",
		Gap: c.options.Gap, EditGap: c.options.EditGap,
		Repeats: "recognised for some minutes; after that a message may come twice after a crash, and is marked", Known: known,
	}
}

// Close implements [chat.Platform]. The session goes on at the platform, so that it can
// be resumed.
func (c *connection) Close() error {
	c.end(nil)
	c.socket.close()
	c.client.http.CloseIdleConnections()
	return nil
}

// within is ctx, which ends with the connection too.
func (c *connection) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// trouble gives an error of connecting or receiving the meaning that it has for the
// channel.
func trouble(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*refused](err); ok && e.concerns() == ofToken {
		return channel.Fatal(fmt.Errorf("the bot's token is refused (401 %s): get the present one from the Developer Portal, under Bot", e.words))
	}
	e, ok := errors.AsType[*closed](err)
	if !ok {
		return outage(err)
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
	return outage(err)
}

// CheckToken refuses what cannot be a token. It does not say what it was.
func CheckToken(token string) error {
	if !tokenForm.MatchString(token) {
		return errors.New("this is no token of a Discord bot: it has three parts with dots between them, as the Developer Portal gives it under Bot")
	}
	return nil
}

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]{18,64}\.[A-Za-z0-9_-]{4,16}\.[A-Za-z0-9_-]{20,100}$`)
