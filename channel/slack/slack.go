// Package slack connects Slack apps by Socket Mode
// (https://docs.slack.dev/apis/events-api/using-socket-mode): events arrive over a WebSocket,
// and everything else is a call of the Web API.
//
// An envelope is acknowledged once its content is durable: committed to its thread, or
// guaranteed to be read from the room's history after a crash. Until then Slack redelivers it
// for some minutes. Files, histories and names are fetched concurrently. Messages sent while
// the bot was disconnected are read from the histories of the rooms in the saved position. A
// message id is the channel and the timestamp, the same in events, histories and responses, so
// a redelivered message is recognised.
//
// Sent messages carry their key in their metadata and are found by it.
package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/lazyregexp"
)

// Kind is the name of this platform in configurations.
const Kind = "slack"

const (
	// DefaultAPI is the base URL of the Web API.
	DefaultAPI = "https://slack.com/api"
	// DefaultIdleTimeout is how long a pong proves that the socket is alive.
	DefaultIdleTimeout = 30 * time.Second
	// MaxMessage is the length limit of a message: a section block, which holds the text beside
	// buttons, takes 3,000 characters
	// (https://docs.slack.dev/reference/block-kit/blocks/section-block), and an edit takes
	// 4,000.
	MaxMessage = 3000

	maxButtonData = 255              // bytes of a button's value
	maxLabel      = 75               // characters of a button's label
	callTimeout   = 15 * time.Second // timeout of any call
)

// Options configures one app in one workspace. Both tokens are required.
type Options struct {
	// Token and AppToken return the bot's token (xoxb-) and the app's token (xapp-), which
	// opens the socket. They are called for each connection attempt, so a corrected token takes
	// effect without a restart.
	Token, AppToken func() (string, error)
	API             string        // base URL of the Web API; "" means DefaultAPI
	IdleTimeout     time.Duration // how long a pong proves the connection; 0 means DefaultIdleTimeout
	// Flat makes a channel one conversation: the bot answers in the channel itself. Otherwise
	// it answers each message in a thread of its own.
	Flat bool
	// Recount is how long Slack may count a socket that has ended as a connection of the app; 0 means a minute.
	Recount time.Duration
	// RoomInterval and EditInterval are the pauses in [chat.Capabilities]. 0 means 1 s and 3 s.
	RoomInterval, EditInterval time.Duration
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{
		{&o.IdleTimeout, DefaultIdleTimeout}, {&o.Recount, time.Minute}, {&o.RoomInterval, time.Second},
		{&o.EditInterval, 3 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.unset
		}
	}
	if o.API == "" {
		o.API = DefaultAPI
	}
}

// ReconnectPolicy returns the platform's timeouts. The socket is pinged three times within
// IdleTimeout.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	o.setDefaults()
	return channel.ReconnectPolicy{IdleTimeout: o.IdleTimeout, ConnectTimeout: 2 * callTimeout}
}

// account is the bot that a token belongs to.
type account struct {
	ID     string `json:"user_id"`
	Name   string `json:"user"` // the handle that people mention
	Bot    string `json:"bot_id"`
	TeamID string `json:"team_id"`
	Team   string `json:"team"` // workspace name
	URL    string `json:"url"`  // workspace URL
	// MissingScopes are the [scopes] that the token lacks. Only chat:write is
	// indispensable.
	MissingScopes []string `json:"-"`
}

// identity qualifies the bot's user id with its workspace, because user ids are unique only
// there.
func (b account) identity() string { return b.TeamID + "." + b.ID }

// scopeMetadata is the scope without which a history shows no message keys.
const scopeMetadata = "metadata.message:read"

// scopes returns the scopes that a bot's token should have.
func scopes() []string {
	return []string{
		"app_mentions:read", "channels:history", "chat:write", "files:read", scopeFiles, "groups:history", "im:history",
		scopeMetadata,
		"mpim:history", "users:read",
	}
}

// missingScopes returns the scopes that the X-OAuth-Scopes header does not list, or nil if the
// header is empty.
func missingScopes(header string) (missing []string) {
	if header == "" {
		return nil
	}
	var has []string
	for s := range strings.SplitSeq(header, ",") {
		has = append(has, strings.TrimSpace(s))
	}
	for _, s := range scopes() {
		if !slices.Contains(has, s) {
			missing = append(missing, s)
		}
	}
	return missing
}

// identify returns the bot that the tokens belong to. It opens and closes a socket to check the
// app's token.
func identify(ctx context.Context, o Options) (account, error) {
	o.setDefaults()
	c, err := newClient(o)
	if err != nil {
		return account{}, err
	}
	defer c.http.CloseIdleConnections()
	bot, s, err := c.connect(ctx, nil)
	if err != nil {
		return account{}, connectionError(err)
	}
	return bot, s.close()
}

// Dial implements [chat.Dialer].
func (o Options) Dial(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
	o.setDefaults()
	c, err := newClient(o)
	if err != nil {
		return nil, chat.Capabilities{}, err
	}
	bot, s, err := c.connect(ctx, l.Received)
	if err != nil {
		c.http.CloseIdleConnections()
		return nil, chat.Capabilities{}, connectionError(err)
	}
	connCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // cancelled by Close
	conn := &connection{options: o, client: c, socket: s, bot: bot, host: l, ctx: connCtx, cancel: cancel,
		names: newNameCache()}
	return conn, conn.capabilities(), nil
}

// connect identifies the bot, checks its tokens and opens its socket.
func (c *client) connect(ctx context.Context, onReceive func()) (account, *socket, error) {
	bot, err := c.getBot(ctx)
	if err != nil {
		return bot, nil, err
	}
	if err := bot.checkWriteScope(); err != nil {
		return bot, nil, err
	}
	s, err := c.dial(ctx, onReceive)
	if err != nil {
		return bot, nil, err
	}
	if err := c.checkSameApp(ctx, bot, s.app); err != nil {
		return bot, nil, errors.Join(err, s.close())
	}
	return bot, s, nil
}

// checkWriteScope returns an error if the token lacks chat:write.
func (b account) checkWriteScope() error {
	if slices.Contains(b.MissingScopes, "chat:write") {
		return &httpcall.Refusal{Op: "check token scopes", Platform: "Slack", Code: "missing_scope", Text: "needs chat:write"}
	}
	return nil
}

// getBot returns the bot that the bot's token belongs to.
func (c *client) getBot(ctx context.Context) (bot account, err error) {
	scopes, err := c.call(ctx, request{op: "get bot identity", method: "auth.test", result: &bot})
	if err == nil && (bot.ID == "" || bot.TeamID == "") {
		err = &httpcall.TransportError{Op: "get bot identity", Reason: "response names no bot", MaybeSent: true}
	}
	bot.MissingScopes = missingScopes(scopes)
	return bot, err
}

// checkSameApp returns an error if the tokens belong to two apps: the socket would then never
// receive an event. If the bot may not look this up, the tokens are accepted.
func (c *client) checkSameApp(ctx context.Context, bot account, app string) error {
	var about struct {
		Bot struct {
			App string `json:"app_id"`
		} `json:"bot"`
	}
	_, err := c.call(ctx, request{op: "get the bot's app", method: "bots.info", params: formValues("bot", bot.Bot),
		result: &about})
	if _, refused := errors.AsType[*httpcall.Refusal](err); refused || bot.Bot == "" {
		return nil
	}
	if err != nil {
		return err
	}
	if is := about.Bot.App; is != "" && app != "" && is != app {
		return channel.Fatal(
			fmt.Errorf("the app token belongs to app %s and the bot token to app %s: use both tokens of one app", app, is))
	}
	return nil
}

// connection is one connection of a bot. It implements [chat.Platform].
type connection struct {
	// Set by Dial.
	options        Options
	client         *client
	bot            account
	host           *channel.Host
	ctx            context.Context // cancelled by Close, or with the error that ended the connection
	cancel         context.CancelCauseFunc
	names          *nameCache
	historyWarning sync.Once // reports once that a history cannot be read

	// Owned by mu.
	mu     sync.Mutex
	socket *socket // the socket in use; a renewal replaces it
}

// capabilities are the same for every connection.
func capabilities() chat.Capabilities {
	return chat.Capabilities{Platform: Kind, MaxUnits: MaxMessage, Units: escapedUnits, MaxUpload: maxUpload, Edits: true,
		Buttons: true, CommandPrefix: "!"}
}

func (c *connection) capabilities() chat.Capabilities {
	t := capabilities()
	t.BotID, t.BotName = c.bot.identity(), c.bot.Name
	t.RoomInterval, t.EditInterval = c.options.RoomInterval, c.options.EditInterval
	return t
}

// Maintain implements [chat.Platform]. It pings the socket. When a socket fails, Maintain returns nil, because
// Receive returns the error.
func (c *connection) Maintain(ctx context.Context) error {
	ctx, release := httpcall.BindContext(ctx, c.ctx)
	defer release()
	for {
		s := c.currentSocket()
		err := s.keepAlive(ctx, c.options.IdleTimeout/3)
		switch {
		case ctx.Err() != nil:
			return c.stopError(ctx, nil)
		case c.currentSocket() == s:
			c.host.Log().Debug("socket did not answer a ping; reconnecting", "error", err)
			return nil
		}
	}
}

// Close implements [chat.Platform].
func (c *connection) Close() error {
	c.cancel(errClosed)
	c.client.http.CloseIdleConnections()
	return c.currentSocket().close()
}

var errClosed = errors.New("the connection to Slack was closed")

// stopError returns the error to stop with: the cause that ended the connection takes
// precedence over the errors that followed from it.
func (c *connection) stopError(ctx context.Context, err error) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// checkToken rejects a string that cannot be a bot's token. The error does not contain the
// string.
func checkToken(token string) error {
	if !botTokenPattern().MatchString(token) {
		return errors.New("not a Slack bot token: copy it from OAuth & Permissions of the app, it starts with xoxb-")
	}
	return nil
}

// checkAppToken rejects a string that cannot be an app's token.
func checkAppToken(token string) error {
	if !appTokenPattern().MatchString(token) {
		return errors.New("not a Slack app-level token: copy it from Basic Information of the app, it starts with xapp-")
	}
	return nil
}

var (
	botTokenPattern = lazyregexp.New(`^xoxb-[A-Za-z0-9-]{10,250}$`)
	appTokenPattern = lazyregexp.New(`^xapp-[A-Za-z0-9-]{10,250}$`)
)
