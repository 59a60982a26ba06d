// Package telegram connects Telegram bots by the Bot API (https://core.telegram.org/bots/api).
//
// Updates arrive by long polling. A poll with an offset confirms all updates below it, and
// Telegram then deletes them, so each offset is sent once: with the poll that follows the
// commit of everything below it. All other polls carry no offset and return every unconfirmed
// update, even after Telegram has restarted its numbering. The pieces of an album of a group are
// confirmed once it is complete. Redelivered updates are recognised
// by their chat and message ids.
//
// Telegram stores no idempotency key with a message and offers no history, so a bot cannot find
// out what it has sent.
package telegram

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/lazyregexp"
)

// Kind is the name of this platform in configurations.
const Kind = "telegram"

const (
	// DefaultAPI is the base URL of the Bot API.
	DefaultAPI = "https://api.telegram.org"
	// DefaultPoll is how long a poll waits for updates.
	DefaultPoll = 20 * time.Second
	// MaxMessage is the length limit of a message, in UTF-16 code units.
	MaxMessage = 4096

	maxButtonData = 64               // bytes of callback data
	maxAck        = 200              // UTF-16 units of the reply to a button press
	maxFileSize   = 20 << 20         // bytes: the download limit of the Bot API
	callTimeout   = 20 * time.Second // of any call except a poll
	pollGrace     = 15 * time.Second // how late a poll may be answered
	// globalGap keeps the bot below "30 messages per second or so" (Bots FAQ, "My bot is
	// hitting limits, how do I avoid this?").
	globalGap = time.Second / 28
	// groupPerMinute is the limit of messages to one group: "In a group, bots are not able to
	// send more than 20 messages per minute"
	// (https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this). The
	// FAQ names no limit for edits and typing; those rely on 429 and its retry_after.
	groupPerMinute = 20
	otherPollTTL   = 10 * time.Second // how long another process's poll may outlive its timeout
)

// Command is an entry of the bot's command menu.
type Command struct {
	Name        string `json:"command"` // without the slash
	Description string `json:"description"`
}

// Options configures one bot. Token is required.
type Options struct {
	// Token returns the bot's token. It is called for each connection attempt, so a corrected
	// token takes effect without a restart.
	Token func() (string, error)
	API   string        // base URL of the Bot API; "" means DefaultAPI
	Poll  time.Duration // poll timeout, rounded down to seconds, at least 1 s; 0 means DefaultPoll
	// Commands is the bot's menu. nil leaves the menu unchanged.
	Commands []Command
	// RoomInterval and EditInterval are the pauses in [chat.Capabilities]. 0 means 1 s and 3 s.
	RoomInterval, EditInterval time.Duration
	// AlbumWait is how long the pieces of an album of a group are not confirmed. 0 means 1 s.
	AlbumWait time.Duration
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{{&o.Poll, DefaultPoll}, {&o.RoomInterval, time.Second}, {&o.EditInterval, 3 * time.Second}, {&o.AlbumWait,
		albumWait}} {
		if *d.value <= 0 {
			*d.value = d.unset
		}
	}
	o.Poll = max(o.Poll.Truncate(time.Second), time.Second)
	if o.API == "" {
		o.API = DefaultAPI
	}
}

// ReconnectPolicy returns the platform's timeouts: a connection without an answered poll for
// that long is considered dead.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	o.setDefaults()
	return channel.ReconnectPolicy{IdleTimeout: o.Poll + min(o.Poll, pollGrace), ConnectTimeout: 2 * callTimeout}
}

// account is the bot that a token belongs to.
type account struct {
	ID       int64  `json:"id"`
	Name     string `json:"first_name"`
	Username string `json:"username"`
	ReadsAll bool   `json:"can_read_all_group_messages"` // privacy mode is off
}

// identify returns the bot that the token belongs to.
func identify(ctx context.Context, o Options) (account, error) {
	c, err := newClient(o)
	if err != nil {
		return account{}, err
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
	connCtx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // cancelled by Close
	conn := &connection{
		options: o, client: c, bot: bot, host: l, ctx: connCtx, cancel: cancel, migrated: map[string]string{},
		privacyModes: map[int64]privacyMode{},
	}
	return conn, conn.capabilities(), nil
}

// connect returns the bot and removes its webhook, because Telegram rejects polls while one is
// set.
func (c *client) connect(ctx context.Context, l *channel.Host) (account, error) {
	bot, err := c.getBot(ctx)
	if err != nil {
		return bot, err
	}
	var hook struct {
		URL string `json:"url"`
	}
	if err := c.call(ctx, "get webhook info", "getWebhookInfo", nil, &hook, callTimeout); err != nil {
		return bot, err
	}
	if hook.URL == "" {
		return bot, nil
	}
	l.Log().Warn("webhook deleted: this channel polls for updates", "bot", bot.Username)
	return bot, c.call(ctx, "delete webhook", "deleteWebhook", nil, nil, callTimeout)
}

// getBot returns the bot that the token belongs to.
func (c *client) getBot(ctx context.Context) (bot account, err error) {
	err = c.call(ctx, "get bot identity", "getMe", nil, &bot, callTimeout)
	if err == nil && bot.ID == 0 {
		err = &httpcall.TransportError{Op: "get bot identity", Reason: "response names no bot", MaybeSent: true}
	}
	return bot, err
}

// connection is one connection of a bot. It implements [chat.Platform].
type connection struct {
	// Set by Dial.
	options Options
	client  *client
	bot     account
	host    *channel.Host
	ctx     context.Context // cancelled by Close
	cancel  context.CancelFunc

	privacyModes map[int64]privacyMode // by chat id; owned by Receive

	// Owned by mu.
	mu        sync.Mutex
	migrated  map[string]string // new ids of migrated groups, by old id
	lastFlood floodLimit        // the last chat that hit a flood limit
}

// capabilities are the same for every connection.
func capabilities() chat.Capabilities {
	return chat.Capabilities{
		Platform: Kind, MaxUnits: MaxMessage, Units: utf16Units, MaxUpload: maxUpload, Edits: true, Buttons: true,
		Typing:      true,
		BotInterval: globalGap, GroupPerMinute: groupPerMinute,
	}
}

func (c *connection) capabilities() chat.Capabilities {
	t := capabilities()
	t.BotID, t.BotName = strconv.FormatInt(c.bot.ID, 10), c.bot.Username
	t.RoomInterval, t.EditInterval = c.options.RoomInterval, c.options.EditInterval
	return t
}

// Maintain implements [chat.Platform]. It sets the command menu once.
func (c *connection) Maintain(ctx context.Context) error {
	if c.options.Commands == nil {
		return nil
	}
	ctx, release := httpcall.BindContext(ctx, c.ctx)
	defer release()
	in := map[string]any{"commands": c.options.Commands}
	if err := c.client.call(ctx, "set commands", "setMyCommands", in, nil, callTimeout); err != nil && ctx.Err() == nil {
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

// connectionError classifies an error of connecting or receiving: a rejected token is fatal, a
// conflicting poller is waited for, and anything else is retried.
func connectionError(err error, poll time.Duration) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*httpcall.Refusal](err)
	switch {
	case !ok:
		return httpcall.Unavailable(err)
	case e.Status == 401 || e.Status == 404:
		return channel.Fatal(fmt.Errorf("token rejected (%d %s): get the current token from @BotFather", e.Status, e.Text))
	case e.Status == 409:
		// The other poll stays open until its timeout.
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: poll + min(poll, otherPollTTL),
			Err: fmt.Errorf("another process polls for this bot's updates, and only one can: stop it (%w)", err)}
	}
	return httpcall.Unavailable(err)
}

// checkToken rejects a string that cannot be a token. The error does not contain the string.
func checkToken(token string) error {
	if !tokenPattern().MatchString(token) {
		return errors.New("not a Telegram bot token: copy it from @BotFather, it has the form 123456789:AAE…")
	}
	return nil
}

var tokenPattern = lazyregexp.New(`^[0-9]{1,20}:[A-Za-z0-9_-]{20,100}$`)
