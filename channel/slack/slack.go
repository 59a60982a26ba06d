// Package slack connects apps of Slack by Socket Mode (https://docs.slack.dev/apis/events-api/using-socket-mode):
// events come over a WebSocket, and everything else is a call of the Web API.
//
// An envelope is acknowledged once what is in it is durable: in its thread, or still to
// be read from the history of its room after a crash; until then Slack sends it again,
// for some minutes. Files, histories and names are fetched beside that. What was said
// while nobody was connected is read from the histories of the rooms that the position
// knows. A message has its channel and its
// time there as its id, the same one in an event, in a history and in an answer, so
// what comes twice is known.
//
// What is sent carries its key in its metadata, and is found by it.
package slack

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
)

// Kind is the name of this platform in configurations.
const Kind = "slack"

const (
	// DefaultAPI is where the Web API answers.
	DefaultAPI = "https://slack.com/api"
	// DefaultFresh is for how long an answer of the socket proves that it is there.
	DefaultFresh = 30 * time.Second
	// MaxMessage is how many units a message has at most: a text beside buttons takes no
	// more (https://docs.slack.dev/reference/block-kit/blocks/section-block), and an
	// edit takes 4,000.
	MaxMessage = 3000

	maxButtonData = 255              // bytes of what a button carries
	maxLabel      = 75               // characters on a button
	callTimeout   = 15 * time.Second // for any call
)

// Options are one app in one workspace. Both tokens are needed.
type Options struct {
	// Token and AppToken return the bot's token (xoxb-) and the app's (xapp-), with
	// which the socket is opened. They are asked for with each try, so that one that
	// was mended is used.
	Token, AppToken func() (string, error)
	API             string        // address of the Web API; "" is DefaultAPI
	Fresh           time.Duration // 0 is DefaultFresh
	// Flat has what is said in a channel answered in the channel, which is one
	// conversation then; else it is answered in a thread of its own.
	Flat bool
	// Gap and EditGap are those of the traits; 0 is 1 s and 3 s.
	Gap, EditGap time.Duration
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{{&o.Fresh, DefaultFresh}, {&o.Gap, time.Second}, {&o.EditGap, 3 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.unset
		}
	}
	if o.API == "" {
		o.API = DefaultAPI
	}
}

// ReconnectPolicy is how this platform is kept going: the socket is asked three times while an
// answer is fresh.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	o.setDefaults()
	return channel.ReconnectPolicy{IdleTimeout: o.Fresh, ConnectTimeout: 2 * callTimeout}
}

// Bot is who a token belongs to.
type Bot struct {
	ID     string `json:"user_id"`
	Name   string `json:"user"` // by which people mention it
	Bot    string `json:"bot_id"`
	TeamID string `json:"team_id"`
	Team   string `json:"team"` // name of the workspace
	URL    string `json:"url"`  // of the workspace
	// MissingScopes are the scopes that the token has not, of those that this package uses.
	// Without one something is missing, but for chat:write, without which nothing is
	// there.
	MissingScopes []string `json:"-"`
}

// identity is the bot's: ids of users are those of a workspace.
func (b Bot) identity() string { return b.TeamID + "." + b.ID }

// scopeMetadata is the scope without which a history shows no keys.
const scopeMetadata = "metadata.message:read"

// Scopes are those that a bot's token should have.
func Scopes() []string {
	return []string{
		"app_mentions:read", "channels:history", "chat:write", "files:read", "groups:history", "im:history", scopeMetadata,
		"mpim:history", "users:read",
	}
}

// missingScopes are the scopes that are not among those of a header, all of them if it says
// nothing of scopes.
func missingScopes(header string) (missing []string) {
	if header == "" {
		return nil
	}
	var has []string
	for s := range strings.SplitSeq(header, ",") {
		has = append(has, strings.TrimSpace(s))
	}
	for _, s := range Scopes() {
		if !slices.Contains(has, s) {
			missing = append(missing, s)
		}
	}
	return missing
}

// Identify asks the platform whose tokens these are, and opens a socket to see that it may.
func Identify(ctx context.Context, o Options) (Bot, error) {
	o.setDefaults()
	c, err := newClient(o)
	if err != nil {
		return Bot{}, err
	}
	defer c.http.CloseIdleConnections()
	bot, s, err := c.connect(ctx, nil)
	if err != nil {
		return Bot{}, connectionError(err)
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
	if s.otherConnections > 0 {
		l.ReportError(fmt.Errorf("the app has %d connections, and Slack gives each event to one of them: somebody else is connected, or an earlier connection has not ended yet", s.otherConnections+1))
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx)) // ends with Close
	conn := &connection{options: o, client: c, socket: s, bot: bot, host: l, ctx: life, cancel: end, names: newNameCache()}
	return conn, conn.capabilities(), nil
}

// connect asks who the bot is, and opens its socket.
func (c *client) connect(ctx context.Context, heard func()) (Bot, *socket, error) {
	bot, err := c.getBot(ctx)
	if err != nil {
		return bot, nil, err
	}
	if err := bot.checkWriteScope(); err != nil {
		return bot, nil, err
	}
	s, err := c.dial(ctx, heard)
	if err != nil {
		return bot, nil, err
	}
	if err := c.checkSameApp(ctx, bot, s.app); err != nil {
		return bot, nil, errors.Join(err, s.close())
	}
	return bot, s, nil
}

// checkWriteScope refuses a bot whose token lacks the one scope that it cannot do without.
func (b Bot) checkWriteScope() error {
	if slices.Contains(b.MissingScopes, "chat:write") {
		return &apiError{op: "look at the scopes of the bot's token", code: "missing_scope", detail: "it needs chat:write"}
	}
	return nil
}

// getBot asks whose the bot's token is.
func (c *client) getBot(ctx context.Context) (bot Bot, err error) {
	scopes, err := c.call(ctx, request{op: "ask whose token it is", method: "auth.test", result: &bot})
	if err == nil && (bot.ID == "" || bot.TeamID == "") {
		err = &transportError{op: "ask whose token it is", reason: "the answer names no bot", maybeSent: true}
	}
	bot.MissingScopes = missingScopes(scopes)
	return bot, err
}

// checkSameApp makes sure that both tokens are of one app: else the socket is silent for
// ever. Who may not ask is believed.
func (c *client) checkSameApp(ctx context.Context, bot Bot, app string) error {
	var about struct {
		Bot struct {
			App string `json:"app_id"`
		} `json:"bot"`
	}
	_, err := c.call(ctx, request{op: "ask which app the bot is of", method: "bots.info", params: formValues("bot", bot.Bot), result: &about})
	if _, refused := errors.AsType[*apiError](err); refused || bot.Bot == "" {
		return nil
	}
	if err != nil {
		return err
	}
	if is := about.Bot.App; is != "" && app != "" && is != app {
		return channel.Fatal(fmt.Errorf("the app's token is of the app %s, and the bot's of %s: take both from one app", app, is))
	}
	return nil
}

// connection is one connection of a bot. It implements [chat.Platform].
type connection struct {
	// Set by Dial.
	options        Options
	client         *client
	bot            Bot
	host           *channel.Host
	ctx            context.Context // ends with Close, or with an error that is the end of it
	cancel         context.CancelCauseFunc
	names          *nameCache
	historyWarning sync.Once // that a history may not be read was told

	// Owned by mu.
	mu     sync.Mutex
	socket *socket // over which envelopes come
}

func (c *connection) capabilities() chat.Capabilities {
	return chat.Capabilities{
		Platform: Kind, BotID: c.bot.identity(), BotName: c.bot.Name,
		MaxUnits: MaxMessage, Units: escapedUnits, Edits: true, Buttons: true, CommandPrefix: "!",
		RoomInterval: c.options.Gap, EditInterval: c.options.EditGap,
		ResendBehavior: "once; after a crash a message is found by the key in its metadata",
	}
}

// Maintain implements [chat.Platform]: it asks the socket whether it is there. Why one
// ends, who receives from it knows better.
func (c *connection) Maintain(ctx context.Context) error {
	ctx, done := c.bindContext(ctx)
	defer done()
	for {
		s := c.currentSocket()
		err := s.keepAlive(ctx, c.options.Fresh/3)
		switch {
		case ctx.Err() != nil:
			return c.stopError(ctx, nil)
		case c.currentSocket() == s:
			c.host.Log().Debug("the socket cannot be asked any more", "error", err)
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

var errClosed = errors.New("the connection is closed")

// bindContext is ctx, which ends with the connection too.
func (c *connection) bindContext(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// stopError is the error with which something ends: what ended the connection counts more
// than what came of it.
func (c *connection) stopError(ctx context.Context, err error) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// CheckToken refuses what cannot be the token of a bot. It does not say what it was.
func CheckToken(token string) error {
	if !botTokenPattern.MatchString(token) {
		return errors.New("this is no token of a Slack bot: it begins with xoxb-, and is under OAuth & Permissions of the app")
	}
	return nil
}

// CheckAppToken refuses what cannot be the token of an app.
func CheckAppToken(token string) error {
	if !appTokenPattern.MatchString(token) {
		return errors.New("this is no app-level token of Slack: it begins with xapp-, and is under Basic Information of the app")
	}
	return nil
}

var (
	botTokenPattern = regexp.MustCompile(`^xoxb-[A-Za-z0-9-]{10,250}$`)
	appTokenPattern = regexp.MustCompile(`^xapp-[A-Za-z0-9-]{10,250}$`)
)
