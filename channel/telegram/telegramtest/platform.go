// Package telegramtest is a fake of Telegram for tests. Bots call it like the real Bot API,
// people send messages and press buttons, and it fails on demand.
//
// It keeps updates until a poll with an offset above them confirms them. A second poll of a bot
// ends the first one.
package telegramtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/channel/platformtest"
)

// The bot that exists at the start.
const (
	Token    = "700100200:AAFakeTokenOfTheBotThatIsUsedInTests"
	BotID    = 700100200
	Username = "mailroom_bot"
)

// Fault and Call are the types that all fakes share. Calls have the names of the Bot API's methods.
type (
	Fault = platformtest.Fault
	Call  = platformtest.Call
)

// Platform is the fake server. Its methods are safe for concurrent use.
type Platform struct {
	*platformtest.Server
	URL string

	// Owned by mu.
	mu        sync.Mutex
	bots      map[string]*bot // by token
	chats     map[int64]*Chat
	people    int64
	files     map[string]storedFile // by id
	held      chan struct{}         // downloads stop halfway until this is closed; nil: they do not
	downloads int
	limits    map[int64]time.Time
	presses   map[string]*ButtonPress // by query id
	nextPress int
}

// bot is a bot and its updates.
type bot struct {
	id       int64
	username string
	readsAll bool
	revoked  bool
	webhook  string
	commands []any
	updates  []queuedUpdate
	nextID   int64
	polls    int                        // number of polls so far
	pollers  map[string]context.Context // open polls, by the host name that their client calls
	overlaps int
}

type queuedUpdate struct {
	id  int64
	raw map[string]any
}

type storedFile struct {
	path, name string
	content    []byte
}

// New starts a platform that stops with the test.
func New(t testing.TB) *Platform {
	t.Helper()
	p := NewDown(t)
	p.Up(t)
	return p
}

// NewDown returns a platform that refuses connections until Up.
func NewDown(t testing.TB) *Platform {
	t.Helper()
	p := &Platform{bots: map[string]*bot{}, chats: map[int64]*Chat{}, files: map[string]storedFile{},
		limits: map[int64]time.Time{}, presses: map[string]*ButtonPress{}}
	p.Server = platformtest.NewServer(t, &p.mu, p)
	p.URL = "http://" + p.Addr
	p.AddBot(Token, BotID, Username)
	return p
}

// AddBot adds a bot, or gives an existing one a new token and revokes the old one.
func (p *Platform) AddBot(token string, id int64, username string) {
	p.Update(func() {
		made := &bot{id: id, username: username, nextID: 412_000_001, pollers: map[string]context.Context{}}
		for _, b := range p.bots {
			if b.id == id && !b.revoked {
				copied := *b
				made, b.revoked = &copied, true
			}
		}
		p.bots[token] = made
	})
}

// Revoke revokes a token, or restores it.
func (p *Platform) Revoke(token string, revoked bool) {
	p.Update(func() { p.bots[token].revoked = revoked })
}

// SetWebhook sets the bot's webhook as another process would; "" removes it.
func (p *Platform) SetWebhook(url string) {
	p.Update(func() { p.bots[Token].webhook = url })
}

// SetReadsAll turns the bot's privacy mode off, or on again.
func (p *Platform) SetReadsAll(all bool) {
	p.Update(func() { p.bots[Token].readsAll = all })
}

// Limit rejects all calls to a chat with 429 for d, with the remaining time as retry_after.
func (p *Platform) Limit(c *Chat, d time.Duration) {
	p.Update(func() { p.limits[c.ID] = time.Now().Add(d) })
}

// SetNextUpdateID sets the id of the next update. Telegram restarts its numbering after a week
// without updates.
func (p *Platform) SetNextUpdateID(next int64) {
	p.Update(func() { p.bots[Token].nextID = next })
}

// Redeliver delivers the latest update once more, even if it was confirmed.
func (p *Platform) Redeliver() {
	p.Update(func() {
		var last queuedUpdate
		for _, c := range p.chats {
			if c.last.id > last.id {
				last = c.last
			}
		}
		b := p.bots[Token]
		b.updates = append(b.updates, last)
	})
}

// Pending returns the number of unconfirmed updates.
func (p *Platform) Pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bots[Token].updates)
}

// Overlaps returns how many polls began while one for another host name of the platform was open. Each
// server of a test calls the platform by another name.
func (p *Platform) Overlaps() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bots[Token].overlaps
}

// Commands returns the number of commands in the bot's menu.
func (p *Platform) Commands() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bots[Token].commands)
}

// Webhook returns the bot's webhook, "" if it has none.
func (p *Platform) Webhook() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bots[Token].webhook
}

// HoldFiles stops each download halfway until release is called.
func (p *Platform) HoldFiles() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(chan struct{})
	p.held = held
	return func() { close(held) }
}

// Downloads returns the number of downloads started.
func (p *Platform) Downloads() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.downloads
}

// String lists the messages of all chats and counts the calls.
func (p *Platform) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(p.chats)) {
		out.WriteString(p.chats[id].Describe(fmt.Sprint(id)))
	}
	return out.String() + p.CountCalls()
}

// push queues an update for the bot. mu must be held.
func (p *Platform) push(c *Chat, kind string, body map[string]any) {
	for _, b := range p.bots {
		if b.id != BotID || b.revoked {
			continue
		}
		u := queuedUpdate{b.nextID, map[string]any{"update_id": b.nextID, kind: body}}
		b.nextID++
		b.updates = append(b.updates, u)
		c.last = u
	}
	p.Notify()
}

func clone(body map[string]any) map[string]any {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // a mistake in a test
	}
	var copied map[string]any
	if err := json.Unmarshal(raw, &copied); err != nil {
		panic(err)
	}
	return copied
}
