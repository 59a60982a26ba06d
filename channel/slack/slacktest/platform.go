// Package slacktest is Slack for one app in one workspace, as far as package slack
// needs it: the Web API over HTTP and Socket Mode over WebSockets, on this machine,
// with people who talk to the bot. It keeps what a real one keeps, refuses what a real
// one refuses, and can fail in the ways that a real one does.
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
	// Token and AppToken are those of the app.
	Token    = "xoxb-0-fake-token-of-the-bot-in-tests"
	AppToken = "xapp-0-fake-token-of-the-app-in-tests"

	// BotID is the bot's user, and Name is how people mention it.
	BotID = "U0MAILROOM"
	Name  = "mailroom"
	// TeamID is the workspace's.
	TeamID = "T0WORK"
	// AppID is the app's.
	AppID = "A0MAILROOM"

	botID = "B0MAILROOM"
)

// Fault is what goes wrong with one call.
type Fault struct {
	Error      string // the platform refuses it with this word
	Needed     string // scope, beside Error
	RetryAfter int    // seconds; with an Error of ratelimited the status is 429
	Status     int    // of Raw
	Raw        string // body of the answer, instead of any other

	// What is done all the same.
	Lose bool          // the connection is cut instead of the answer
	Half bool          // half of the answer comes
	Hold chan struct{} // the answer comes when this is closed

	Hang bool // nothing is done, and nothing is answered
}

// Platform is the server. Its methods may be called concurrently.
type Platform struct {
	URL string // of the Web API

	addr   string
	server *http.Server

	// Owned by mu.
	mu           sync.Mutex
	changed      chan struct{} // closed when something has happened
	quit         context.CancelFunc
	token        string
	appToken     string
	botApp       string // of the bot's token
	revoked      map[string]bool
	scopes       []string
	channels     map[string]*Channel
	people       map[string]*Person
	files        map[string]storedFile // by id
	calls        []Call
	faults       map[string][]Fault // by method
	limits       map[string]time.Time
	frozen       chan struct{} // closed when what is half-open is so no more; nil if nothing is
	otherSockets int           // sockets of somebody else

	tickets       map[string]bool
	sockets       map[*socket]bool
	acks          []Ack
	envelopes     []*envelope // that nobody has acknowledged, in order
	last          *envelope   // that was made last
	numbers       int         // of everything that is counted
	clock         int64       // microseconds of the last message
	socketModeOff bool        // socket mode
	loseAcks      bool        // acknowledgements are lost
}

// Call is a call that the platform has got.
type Call struct {
	Method string
	Params url.Values
	At     time.Time
	Error  string // why it was refused; "" if it was answered, or not
}

type storedFile struct {
	name, kind string
	content    []byte
}

// New starts a platform that ends with the test.
func New(t testing.TB) *Platform {
	t.Helper()
	p := NewDown(t)
	p.Up(t)
	return p
}

// NewDown makes a platform that refuses connections until it is Up.
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

// Up lets the platform listen where it was.
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
	go func() { _ = server.Serve(ln) }() // ends with Down, and says nothing else
}

// Down breaks all connections and refuses others from now on. What it knows stays.
func (p *Platform) Down() {
	p.mu.Lock()
	server, quit := p.server, p.quit
	p.server = nil
	p.mu.Unlock()
	quit()
	p.closeSockets()
	if server != nil {
		_ = server.Close() // there is nothing to be done about it
	}
}

// closeSockets breaks the sockets.
func (p *Platform) closeSockets() {
	p.mu.Lock()
	open := slices.Collect(maps.Keys(p.sockets))
	p.mu.Unlock()
	for _, s := range open {
		_ = s.conn.CloseNow() // it may be closed
	}
}

// Freeze leaves all connections open and answers nothing any more, until Thaw: no
// call, and no ping.
func (p *Platform) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
}

// Thaw answers again. What was asked meanwhile has been lost.
func (p *Platform) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.frozen)
	p.frozen = nil
	p.notify()
}

// Fail has the next calls of a method fail, one fault each.
func (p *Platform) Fail(method string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[method] = append(p.faults[method], faults...)
}

// Limit has a method refused with 429 for a time, with the rest of it as Retry-After.
func (p *Platform) Limit(method string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[method] = time.Now().Add(d)
}

// Revoke makes the tokens such that are not known any more, or again, and breaks the
// sockets.
func (p *Platform) Revoke(revoked bool) {
	p.RevokeBot(revoked)
	p.mu.Lock()
	p.revoked[p.appToken] = revoked
	p.mu.Unlock()
	p.closeSockets()
}

// RevokeBot does so with the bot's token alone. The socket stays.
func (p *Platform) RevokeBot(revoked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revoked[p.token] = revoked
}

// ReplaceToken gives the bot another token; the old one is not known any more.
func (p *Platform) ReplaceToken(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = token
}

// SetBotApp has the bot's token be that of another app.
func (p *Platform) SetBotApp(app string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.botApp = app
}

// RemoveScopes takes scopes from the bot.
func (p *Platform) RemoveScopes(scopes ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scopes = slices.DeleteFunc(slices.Clone(p.scopes), func(s string) bool { return slices.Contains(scopes, s) })
}

// Calls are those of a method; of all methods with "".
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

// WaitFor waits until something is as it should be, which the platform can see.
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
			t.Fatalf("Slack never saw %s; it has:\n%s", what, p)
		}
	}
}

// String tells what is in the channels, and how often what was called.
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
	fmt.Fprintf(&out, "%d envelopes wait, %d sockets\n", len(p.envelopes), len(p.sockets))
	count := map[string]int{}
	for _, c := range p.calls {
		count[c.Method+" "+c.Error]++
	}
	for _, k := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(&out, "%s: %d\n", k, count[k])
	}
	return out.String()
}

// notify wakes who waits. It is within mu.
func (p *Platform) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// nextNumber counts on. It is within mu.
func (p *Platform) nextNumber() int {
	p.numbers++
	return p.numbers
}

// nextTimestamp is the time of a message, later than all others. It is within mu.
func (p *Platform) nextTimestamp() string {
	p.clock = max(p.clock+1, time.Now().UnixMicro())
	return fmt.Sprintf("%d.%06d", p.clock/1_000_000, p.clock%1_000_000)
}
