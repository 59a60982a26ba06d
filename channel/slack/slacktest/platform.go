// Package slacktest is a fake of Slack for tests, for one app in one workspace. It serves the
// Web API over HTTP and Socket Mode over WebSockets, people send messages and press buttons,
// and it fails on demand.
package slacktest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
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

// Fault describes how one call fails.
type Fault struct {
	Error      string // error code of an error response; the call is not done
	Needed     string // missing scope, with Error
	RetryAfter int    // in seconds; with the Error ratelimited the status is 429
	Status     int    // status of Raw
	Raw        string // response body as is

	// With these, the call is done.
	Lose bool          // the response is lost
	Half bool          // half of the response is sent
	Hold chan struct{} // the call is answered once this is closed

	Hang bool // the call is not done, and there is no response
}

// Platform is the fake server. Its methods are safe for concurrent use.
type Platform struct {
	URL string // of the Web API

	addr   string
	server *http.Server

	// Owned by mu.
	mu           sync.Mutex
	changed      chan struct{} // closed and replaced when something has changed
	quit         context.CancelFunc
	token        string
	appToken     string
	botApp       string // id of the app that the bot's token belongs to
	revoked      map[string]bool
	scopes       []string
	channels     map[string]*Channel
	people       map[string]*Person
	files        map[string]storedFile // by id
	calls        []Call
	faults       map[string][]Fault // by method
	limits       map[string]time.Time
	frozen       chan struct{} // closed by Thaw; nil if not frozen
	otherSockets int           // sockets of other processes

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

// Call is a call that the platform received.
type Call struct {
	Method string
	Params url.Values
	At     time.Time
	Error  string // code of the error response; "" if there was none
}

type storedFile struct {
	name, kind string
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	p := &Platform{
		URL: "http://" + addr + "/api", addr: addr, changed: make(chan struct{}), quit: func() {},
		token: Token, appToken: AppToken, botApp: AppID, revoked: map[string]bool{},
		channels: map[string]*Channel{}, people: map[string]*Person{}, files: map[string]storedFile{}, faults: map[string][]Fault{},
		limits: map[string]time.Time{}, tickets: map[string]bool{}, sockets: map[*socket]bool{},
		scopes: []string{
			"app_mentions:read", "channels:history", "chat:write", "files:read", "groups:history", "im:history", "metadata.message:read",
			"mpim:history", "users:read",
		},
	}
	t.Cleanup(p.Down)
	return p
}

// Up starts listening on the platform's address.
func (p *Platform) Up(t testing.TB) {
	t.Helper()
	ln, err := net.Listen("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, quit := context.WithCancel(context.Background())
	server := &http.Server{Handler: p.handler(ctx), ReadHeaderTimeout: time.Minute}
	p.mu.Lock()
	p.server, p.quit = server, quit
	p.mu.Unlock()
	go func() { _ = server.Serve(ln) }() // ends with Down; its error says no more
}

// Down closes all connections and refuses new ones. The state is kept.
func (p *Platform) Down() {
	p.mu.Lock()
	server, quit := p.server, p.quit
	p.server = nil
	p.mu.Unlock()
	quit()
	p.closeSockets()
	if server != nil {
		_ = server.Close() // the server is gone either way
	}
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

// Freeze keeps all connections open and answers nothing, not even pings, until Thaw.
func (p *Platform) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
}

// Thaw answers again. Calls made while frozen are lost.
func (p *Platform) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.frozen)
	p.frozen = nil
	p.notify()
}

// Fail makes the next calls of a method fail, one fault each.
func (p *Platform) Fail(method string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[method] = append(p.faults[method], faults...)
}

// Limit rejects a method with 429 for d, with the remaining time as Retry-After.
func (p *Platform) Limit(method string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[method] = time.Now().Add(d)
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revoked[p.token] = revoked
}

// ReplaceToken gives the bot a new token and revokes the old one.
func (p *Platform) ReplaceToken(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = token
}

// SetBotApp makes the bot's token belong to another app.
func (p *Platform) SetBotApp(app string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.botApp = app
}

// RemoveScopes removes scopes from the bot's token.
func (p *Platform) RemoveScopes(scopes ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scopes = slices.DeleteFunc(slices.Clone(p.scopes), func(s string) bool { return slices.Contains(scopes, s) })
}

// Calls returns the calls of a method, or all calls for "".
func (p *Platform) Calls(method string) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Call
	for _, c := range p.calls {
		if method == "" || c.Method == method {
			found = append(found, c)
		}
	}
	return found
}

// WaitFor waits until good returns true. It checks again after each change of the platform.
func (p *Platform) WaitFor(t testing.TB, what string, good func() bool) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if good() {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("timeout waiting for %s; the platform has:\n%s", what, p)
		}
	}
}

// String lists the messages of all channels and counts the calls by method and error.
func (p *Platform) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(p.channels)) {
		fmt.Fprintf(&out, "channel %s\n", id)
		for _, m := range p.channels[id].messages {
			fmt.Fprintf(&out, "  %s %s %s: %q\n", m.TS, m.Thread, m.User, m.Text)
		}
	}
	fmt.Fprintf(&out, "%d envelopes pending, %d sockets\n", len(p.envelopes), len(p.sockets))
	count := map[string]int{}
	for _, c := range p.calls {
		count[c.Method+" "+c.Error]++
	}
	for _, k := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(&out, "%s: %d\n", k, count[k])
	}
	return out.String()
}

// notify wakes the waiting goroutines. mu must be held.
func (p *Platform) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
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
