// Package telegram connects bots of Telegram, by its Bot API (https://core.telegram.org/bots/api).
//
// Updates are asked for by long polls. A poll with an offset confirms what is below
// it, and what is confirmed is gone, so an offset is sent once: with the poll after
// everything that it covers was taken. All other polls have none and are answered
// with whatever is not confirmed, also if the platform has begun to count anew. What
// comes twice is known by the ids of its chat and message.
//
// The platform knows no key of a message and tells no bot what it has sent.
package telegram

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
)

// Kind is the name of this platform in configurations.
const Kind = "telegram"

const (
	// DefaultAPI is where the platform answers.
	DefaultAPI = "https://api.telegram.org"
	// DefaultPoll is how long a poll waits there for something to arrive.
	DefaultPoll = 20 * time.Second
	// MaxMessage is how many units of UTF-16 a message has at most.
	MaxMessage = 4096

	maxButtonData = 64               // bytes of what a button carries
	maxAck        = 200              // units of what is told to who has pressed one
	maxFileSize   = 20 << 20         // bytes: the platform hands out no larger files
	callTimeout   = 20 * time.Second // for any call but a poll
	pollGrace     = 15 * time.Second // for the answer of a poll, once it is due
	// globalGap keeps the bot below "30 messages per second or so" (Bots FAQ, "My bot is
	// hitting limits, how do I avoid this?").
	globalGap = time.Second / 28
	// groupPerMinute is how many messages a group takes: "In a group, bots are not able to send
	// more than 20 messages per minute" (Bots FAQ, same place:
	// https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this). It
	// names no limit for edits and for what shows that the bot is typing: for those the
	// 429 and its retry_after count.
	groupPerMinute = 20
	otherPollTTL   = 10 * time.Second // a poll of somebody else lives that long after it was due
)

// Command is one that the menu of the bot offers.
type Command struct {
	Name        string `json:"command"` // without the slash
	Description string `json:"description"`
}

// Options are one bot. Token is needed.
type Options struct {
	// Token returns the bot's token. It is asked for with each try, so that one that
	// was mended is used.
	Token func() (string, error)
	API   string        // address of the platform; "" is DefaultAPI
	Poll  time.Duration // whole seconds, from one; 0 is DefaultPoll
	// Commands are the menu's; nil leaves it as it is.
	Commands []Command
	// Gap and EditGap are those of the traits; 0 is 1 s and 3 s.
	Gap, EditGap time.Duration
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{{&o.Poll, DefaultPoll}, {&o.Gap, time.Second}, {&o.EditGap, 3 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.unset
		}
	}
	o.Poll = max(o.Poll.Truncate(time.Second), time.Second)
	if o.API == "" {
		o.API = DefaultAPI
	}
}

// ReconnectPolicy is how this platform is kept going: each poll is answered in time, or the
// connection is not what it seems.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	o.setDefaults()
	return channel.ReconnectPolicy{IdleTimeout: o.Poll + min(o.Poll, pollGrace), ConnectTimeout: 2 * callTimeout}
}

// Bot is who a token belongs to.
type Bot struct {
	ID       int64  `json:"id"`
	Name     string `json:"first_name"`
	Username string `json:"username"`
	ReadsAll bool   `json:"can_read_all_group_messages"` // privacy mode is off
}

// Identify asks the platform whose token it is.
func Identify(ctx context.Context, o Options) (Bot, error) {
	c, err := newClient(o)
	if err != nil {
		return Bot{}, err
	}
	defer c.http.CloseIdleConnections()
	bot, err := c.getBot(ctx)
	return bot, connectionError(err, o.Poll)
}

// Dial implements [chat.Dialer].
func (o Options) Dial(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
	o.setDefaults()
	c, err := newClient(o)
	if err != nil {
		return nil, chat.Capabilities{}, err
	}
	bot, err := c.connect(ctx, l)
	if err != nil {
		c.http.CloseIdleConnections()
		return nil, chat.Capabilities{}, connectionError(err, o.Poll)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // ends with Close
	conn := &connection{
		options: o, client: c, bot: bot, host: l, ctx: life, cancel: end, migrated: map[string]string{}, privacyModes: map[int64]privacyMode{},
	}
	return conn, conn.capabilities(), nil
}

// connect asks who the bot is, and makes sure that it can be polled.
func (c *client) connect(ctx context.Context, l *channel.Host) (Bot, error) {
	bot, err := c.getBot(ctx)
	if err != nil {
		return bot, err
	}
	var hook struct {
		URL string `json:"url"`
	}
	if err := c.call(ctx, "ask for a webhook", "getWebhookInfo", nil, &hook, callTimeout); err != nil {
		return bot, err
	}
	if hook.URL == "" {
		return bot, nil
	}
	l.Log().Warn("the bot had a webhook, which is deleted: updates are polled here", "bot", bot.Username)
	return bot, c.call(ctx, "delete the webhook", "deleteWebhook", nil, nil, callTimeout)
}

func (c *client) getBot(ctx context.Context) (bot Bot, err error) {
	err = c.call(ctx, "ask whose token it is", "getMe", nil, &bot, callTimeout)
	if err == nil && bot.ID == 0 {
		err = &transportError{op: "ask whose token it is", reason: "the answer names no bot", maybeSent: true}
	}
	return bot, err
}

// connection is one connection of a bot. It implements [chat.Platform].
type connection struct {
	// Set by Dial.
	options Options
	client  *client
	bot     Bot
	host    *channel.Host
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	privacyModes map[int64]privacyMode // by chat; owned by Receive

	// Owned by mu.
	mu        sync.Mutex
	migrated  map[string]string // groups that have become others, by their old ids
	lastFlood floodLimit        // the last chat for which the platform asked for patience
}

func (c *connection) capabilities() chat.Capabilities {
	return chat.Capabilities{
		Platform: Kind, BotID: strconv.FormatInt(c.bot.ID, 10), BotName: c.bot.Username,
		MaxUnits: MaxMessage, Units: utf16Units, Edits: true, Buttons: true, Typing: true,
		RoomInterval: c.options.Gap, EditInterval: c.options.EditGap, BotInterval: globalGap, GroupPerMinute: groupPerMinute,
		ResendBehavior: "at least once; a message may come twice after a crash, and is marked",
	}
}

// Maintain implements [chat.Platform]: it sets the menu once.
func (c *connection) Maintain(ctx context.Context) error {
	if c.options.Commands == nil {
		return nil
	}
	ctx, done := c.bindContext(ctx)
	defer done()
	in := map[string]any{"commands": c.options.Commands}
	if err := c.client.call(ctx, "set the menu of commands", "setMyCommands", in, nil, callTimeout); err != nil && ctx.Err() == nil {
		c.host.ReportError(err)
	}
	return nil
}

// Close implements [chat.Platform].
func (c *connection) Close() error {
	c.cancel()
	c.client.http.CloseIdleConnections()
	return nil
}

// bindContext is ctx, which ends with the connection too.
func (c *connection) bindContext(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// connectionError gives an error of connecting or receiving the meaning that it has for the
// channel.
func connectionError(err error, poll time.Duration) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*apiError](err)
	switch {
	case !ok:
		return unavailable(err)
	case e.code == 401 || e.code == 404:
		return channel.Fatal(fmt.Errorf("the bot's token is refused (%d %s): get the present one from @BotFather", e.code, e.description))
	case e.code == 409:
		// Its poll lives on for as long as it was to wait.
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: poll + min(poll, otherPollTTL), Err: fmt.Errorf("somebody else receives this bot's messages, and only one can: %w", err)}
	}
	return unavailable(err)
}

// CheckToken refuses what cannot be a token. It does not say what it was.
func CheckToken(token string) error {
	if !tokenPattern.MatchString(token) {
		return errors.New("this is no token of a Telegram bot: it has the form 123456789:AAE…, as @BotFather gives it")
	}
	return nil
}

var tokenPattern = regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{20,100}$`)
