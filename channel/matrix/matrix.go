// Package matrix connects accounts of Matrix, by its Client-Server API
// (https://spec.matrix.org/v1.11/client-server-api/).
//
// Events are asked for by long polls of /sync, each of which begins where the one
// before ended. That place is kept only once all of an answer was taken; what comes
// twice is known by the ids of its events. What an answer leaves out is read from
// /messages.
//
// Each message carries its key, so that the history of its room says whether it was
// sent. The transaction id is made of the key too: a homeserver that remembers it
// answers with the event that is there.
//
// Rooms with encryption cannot be read.
package matrix

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
)

// Kind is the name of this platform in configurations.
const Kind = "matrix"

const (
	// DefaultPoll is how long a poll waits at the homeserver for something to happen.
	DefaultPoll = 20 * time.Second
	// DefaultGap and DefaultEditGap are between two messages, and between two edits of
	// one. Homeservers let an account send about one event in 5 s in the long run, and
	// an edit is one.
	DefaultGap     = time.Second
	DefaultEditGap = 6 * time.Second
	// MaxMessage is how many bytes of JSON the text of one message has at most. An event has
	// 65,536 bytes at most with all that the homeserver adds, and that of an edit has the
	// text twice and once as HTML
	// (https://spec.matrix.org/v1.11/client-server-api/#size-limits).
	MaxMessage = 16 << 10

	maxHTML     = 24 << 10         // bytes of JSON, above which a text is sent without HTML
	callTimeout = 20 * time.Second // for any call but a poll
	pollGrace   = 15 * time.Second // for the answer of a poll, once it is due
)

// Options are one account. Homeserver and Token are needed.
type Options struct {
	Homeserver string // address, such as https://matrix.example.org
	// Token returns the account's access token. It is asked for with each try, so that
	// one that was mended is used.
	Token func() (string, error)
	Poll  time.Duration // 0 is DefaultPoll
	// Gap and EditGap are those of the traits; 0 is DefaultGap and DefaultEditGap.
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

// ReconnectPolicy is how this platform is kept going: each poll is answered in time, or the
// connection is not what it seems.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	o.setDefaults()
	return channel.ReconnectPolicy{IdleTimeout: o.Poll + min(o.Poll, pollGrace), ConnectTimeout: 2 * callTimeout}
}

// Bot is who a token belongs to.
type Bot struct {
	ID     string `json:"user_id"` // such as @bot:example.org
	Device string `json:"device_id"`
	Name   string `json:"-"` // for people
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
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // ends with Close
	conn := &connection{
		options: o, client: c, bot: bot, mention: newMentionMatcher(bot), host: l, ctx: life, cancel: end,
		roomMembers: map[string]roomMembers{}, threads: map[string]string{},
	}
	return conn, conn.capabilities(), nil
}

func (c *client) getBot(ctx context.Context) (bot Bot, err error) {
	const what = "ask whose token it is"
	if err := c.call(ctx, request{op: what, method: http.MethodGet, path: []string{"account", "whoami"}}, &bot, callTimeout); err != nil {
		return bot, err
	}
	if !strings.HasPrefix(bot.ID, "@") || !strings.Contains(bot.ID, ":") {
		return bot, &transportError{op: what, reason: "the answer names no user"}
	}
	var profile struct {
		Name string `json:"displayname"`
	}
	err = c.call(ctx, request{op: "ask for the bot's name", method: http.MethodGet, path: []string{"profile", bot.ID, "displayname"}}, &profile, callTimeout)
	if e, ok := errors.AsType[*apiError](err); ok && (e.code == http.StatusNotFound || e.code == http.StatusForbidden) {
		err = nil // it has none
	}
	if bot.Name = strings.TrimSpace(profile.Name); bot.Name == "" {
		bot.Name = localpart(bot.ID)
	}
	return bot, err
}

// localpart is what stands before the server in the id of a user.
func localpart(user string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(user, "@"), ":")
	return name
}

// connection is one connection of an account. It implements [chat.Platform].
type connection struct {
	// Set by Dial.
	options Options
	client  *client
	bot     Bot
	mention mentionMatcher
	host    *channel.Host
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	// Owned by mu.
	mu          sync.Mutex
	roomMembers map[string]roomMembers // the people of one are owned by who reads it
	threads     map[string]string      // threads of the last messages in threads, by event
	threadOrder []string               // the keys of topics, the oldest first
}

func (c *connection) capabilities() chat.Capabilities {
	return chat.Capabilities{
		Platform: Kind, BotID: c.bot.ID, BotName: c.bot.Name, CommandPrefix: "!",
		MaxUnits: MaxMessage, Units: jsonBytes, Edits: true, Typing: true,
		RoomInterval: c.options.Gap, EditInterval: c.options.EditGap,
		ResendBehavior: "once: the history of the room has its key",
	}
}

// Maintain implements [chat.Platform]. There is nothing to be done.
func (c *connection) Maintain(context.Context) error { return nil }

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

// observedCall makes one call of who receives, whose answer is evidence.
func (c *connection) observedCall(ctx context.Context, r request, out any, within time.Duration) error {
	err := c.client.call(ctx, r, out, within)
	if err == nil {
		c.host.Received()
	}
	return err
}

// connectionError gives an error of connecting or receiving the meaning that it has for the
// channel.
func connectionError(err error) error {
	if err == nil {
		return nil
	}
	if !isFatal(err) {
		return unavailable(err)
	}
	e, _ := errors.AsType[*apiError](err)
	switch {
	case e.errcode == "M_USER_DEACTIVATED":
		return channel.Fatal(fmt.Errorf("the bot's account is deactivated (%d %s)", e.code, e.description))
	case e.errcode == "M_CONSENT_NOT_GIVEN":
		return channel.Fatal(fmt.Errorf("the homeserver wants its terms agreed to first: %w", err))
	case e.softLogout:
		return channel.Fatal(fmt.Errorf("the bot's session has ended (%d %s), and nothing of it is lost: log in again for another access token", e.code, e.description))
	}
	return channel.Fatal(fmt.Errorf("the bot's access token is refused (%d %s): log in again for another one", e.code, e.description))
}

// isFatal reports whether calling again is of no use.
func isFatal(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return false
	}
	switch e.errcode {
	case "M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_CONSENT_NOT_GIVEN":
		return true
	}
	return false
}

func unavailable(err error) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: retryAfter(err), Err: err}
}

func permanent(err error) error { return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} }
