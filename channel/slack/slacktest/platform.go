// Package slacktest is a fake of Slack for tests, for one app in one workspace. It serves the
// Web API over HTTP and Socket Mode over WebSockets, people send messages and press buttons,
// and it fails on demand.
package slacktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/channel/platformtest"
)

const (
	// Token and AppToken are the tokens of the app.
	Token    = "xoxb-0-fake-token-of-the-bot-in-tests"
	AppToken = "xapp-0-fake-token-of-the-app-in-tests"

	// BotID is the user id of the bot, and Name is its handle.
	BotID = "U0MAILROOM"
	Name  = "mailroom"
	// TeamID is the id of the workspace.
	TeamID = "T0WORK"
	// AppID is the id of the app.
	AppID = "A0MAILROOM"

	botID = "B0MAILROOM"
)

// Fault and Call are the types that all fakes share. Calls have the names of the Web API's methods. Errors have
// the status 200, except ratelimited.
type (
	Fault = platformtest.Fault
	Call  = platformtest.Call
)

// Platform is the fake server. Its methods are safe for concurrent use.
type Platform struct {
	*platformtest.Server
	URL string // of the Web API

	// Owned by mu.
	mu           sync.Mutex
	token        string
	appToken     string
	botApp       string // id of the app that the bot's token belongs to
	revoked      map[string]bool
	scopes       []string
	channels     map[string]*Channel
	people       map[string]*Person
	files        map[string]storedFile // by id
	uploads      map[string]*upload    // of the bot, by id
	limits       map[string]time.Time
	otherSockets int // sockets of other processes

	tickets       map[string]bool
	sockets       map[*socket]bool
	acks          []Ack
	envelopes     []*envelope // unacknowledged, in order
	last          *envelope   // the latest
	numbers       int         // the last number given out
	clock         int64       // timestamp of the last message in microseconds
	socketModeOff bool        // Socket Mode is disabled
	loseAcks      bool        // acknowledgements are ignored
}

type storedFile struct {
	name    string
	content []byte
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
	p := &Platform{
		token: Token, appToken: AppToken, botApp: AppID, revoked: map[string]bool{},
		channels: map[string]*Channel{}, people: map[string]*Person{}, files: map[string]storedFile{},
		uploads: map[string]*upload{},
		limits:  map[string]time.Time{}, tickets: map[string]bool{}, sockets: map[*socket]bool{},
		scopes: []string{
			"app_mentions:read", "channels:history", "chat:write", "files:read", "files:write", "groups:history", "im:history",
			"metadata.message:read",
			"mpim:history", "users:read",
		},
	}
	p.Server = platformtest.NewServer(t, &p.mu, p)
	p.URL = "http://" + p.Addr + "/api"
	return p
}

// closeSockets closes all sockets.
func (p *Platform) closeSockets() {
	p.mu.Lock()
	open := slices.Collect(maps.Keys(p.sockets))
	p.mu.Unlock()
	for _, s := range open {
		_ = s.conn.CloseNow() // it may be closed already
	}
}

// Limit rejects a method with 429 for d, with the remaining time as Retry-After.
func (p *Platform) Limit(method string, d time.Duration) {
	p.Update(func() { p.limits[method] = time.Now().Add(d) })
}

// Revoke revokes both tokens, or restores them, and closes the sockets.
func (p *Platform) Revoke(revoked bool) {
	p.RevokeBot(revoked)
	p.mu.Lock()
	p.revoked[p.appToken] = revoked
	p.mu.Unlock()
	p.closeSockets()
}

// RevokeBot revokes the bot's token alone, or restores it. The sockets stay open.
func (p *Platform) RevokeBot(revoked bool) {
	p.Update(func() { p.revoked[p.token] = revoked })
}

// ReplaceToken gives the bot a new token and revokes the old one.
func (p *Platform) ReplaceToken(token string) {
	p.Update(func() { p.token = token })
}

// SetBotApp makes the bot's token belong to another app.
func (p *Platform) SetBotApp(app string) {
	p.Update(func() { p.botApp = app })
}

// RemoveScopes removes scopes from the bot's token.
func (p *Platform) RemoveScopes(scopes ...string) {
	p.Update(func() {
		p.scopes = slices.DeleteFunc(slices.Clone(p.scopes), func(s string) bool { return slices.Contains(scopes, s) })
	})
}

// String lists the messages of all channels and counts the calls.
func (p *Platform) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(p.channels)) {
		out.WriteString(p.channels[id].Describe(id))
	}
	fmt.Fprintf(&out, "%d envelopes pending, %d sockets\n", len(p.envelopes), len(p.sockets))
	return out.String() + p.CountCalls()
}

// nextNumber returns a new number. mu must be held.
func (p *Platform) nextNumber() int {
	p.numbers++
	return p.numbers
}

// nextTimestamp returns the timestamp of a new message, later than all others. mu must be held.
func (p *Platform) nextTimestamp() string {
	p.clock = max(p.clock+1, time.Now().UnixMicro())
	return fmt.Sprintf("%d.%06d", p.clock/1_000_000, p.clock%1_000_000)
}
