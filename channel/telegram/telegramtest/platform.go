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
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The bot that exists at the start.
const (
	Token    = "700100200:AAFakeTokenOfTheBotThatIsUsedInTests"
	BotID    = 700100200
	Username = "mailroom_bot"
)

// Fault describes how one call fails.
type Fault struct {
	Code       int           // error_code of an error response; the call is not done
	Message    string        // description of the error response
	RetryAfter int           // in seconds, with Code
	Raw        string        // response body as is, with status Code or 200
	Hang       bool          // no response
	Half       bool          // the call is done, and half of the response is sent
	Lose       bool          // the call is done, and the response is lost
	Hold       chan struct{} // the call is done, and answered once this is closed
}

// Platform is the fake server. Its methods are safe for concurrent use.
type Platform struct {
	URL string

	server *http.Server

	// Owned by mu.
	mu        sync.Mutex
	changed   chan struct{} // closed and replaced when something has changed
	quit      context.CancelFunc
	bots      map[string]*bot // by token
	chats     map[int64]*Chat
	people    int64
	files     map[string]storedFile // by id
	held      chan struct{}         // downloads stop halfway until this is closed; nil: they do not
	downloads int
	calls     []Call
	faults    map[string][]Fault // by method
	frozen    chan struct{}      // closed by Thaw; nil if not frozen
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
	polls    int           // number of polls so far
	polling  chan struct{} // closed to end the waiting poll; nil if there is none
}

type queuedUpdate struct {
	id  int64
	raw map[string]any
}

// Call is a call that the platform received.
type Call struct {
	Method string
	Params map[string]any
	At     time.Time
	Code   int // status of the response; 0 if none was sent in full
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Platform{
		URL: "http://" + ln.Addr().String(), changed: make(chan struct{}), quit: func() {}, bots: map[string]*bot{},
		chats: map[int64]*Chat{}, files: map[string]storedFile{}, faults: map[string][]Fault{}, limits: map[int64]time.Time{}, presses: map[string]*ButtonPress{},
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	p.AddBot(Token, BotID, Username)
	t.Cleanup(p.Down)
	return p
}

// AddBot adds a bot, or gives an existing one a new token and revokes the old one.
func (p *Platform) AddBot(token string, id int64, username string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	made := &bot{id: id, username: username, nextID: 412_000_001}
	for _, b := range p.bots {
		if b.id == id && !b.revoked {
			p.endPoll(b)
			copied := *b
			made, b.revoked = &copied, true
		}
	}
	p.bots[token] = made
}

// Revoke revokes a token, or restores it.
func (p *Platform) Revoke(token string, revoked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bots[token].revoked = revoked
	if revoked {
		p.endPoll(p.bots[token])
	}
}

// SetWebhook sets the bot's webhook as another process would; "" removes it.
func (p *Platform) SetWebhook(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bots[Token].webhook = url
	if url != "" {
		p.endPoll(p.bots[Token])
	}
}

// SetReadsAll turns the bot's privacy mode off, or on again.
func (p *Platform) SetReadsAll(all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bots[Token].readsAll = all
}

// Up starts listening on the platform's address.
func (p *Platform) Up(t testing.TB) {
	t.Helper()
	ln, err := net.Listen("tcp", strings.TrimPrefix(p.URL, "http://"))
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
	if server != nil {
		_ = server.Close() // the server is gone either way
	}
}

// Freeze keeps all connections open and answers nothing until Thaw.
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
}

// Fail makes the next calls of a method fail, one fault each.
func (p *Platform) Fail(method string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[method] = append(p.faults[method], faults...)
}

// Limit rejects all calls to a chat with 429 for d, with the remaining time as retry_after.
func (p *Platform) Limit(c *Chat, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[c.ID] = time.Now().Add(d)
}

// SetNextUpdateID sets the id of the next update. Telegram restarts its numbering after a week
// without updates.
func (p *Platform) SetNextUpdateID(next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bots[Token].nextID = next
}

// Redeliver delivers the latest update once more, even if it was confirmed.
func (p *Platform) Redeliver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last queuedUpdate
	for _, c := range p.chats {
		if c.last.id > last.id {
			last = c.last
		}
	}
	b := p.bots[Token]
	b.updates = append(b.updates, last)
	p.notify()
}

// Pending returns the number of unconfirmed updates.
func (p *Platform) Pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bots[Token].updates)
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

// Calls returns the calls of a method, or all calls for "".
func (p *Platform) Calls(method string) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Call
	for _, c := range p.calls {
		if method == "" || c.Method == method {
			c.Params = maps.Clone(c.Params)
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
			t.Fatalf("timeout waiting for %s; the platform has:\n%s", what, p.String())
		}
	}
}

// String lists the messages of all chats and counts the calls by method and status.
func (p *Platform) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(p.chats)) {
		fmt.Fprintf(&out, "chat %d\n", id)
		for _, m := range p.chats[id].messages {
			fmt.Fprintf(&out, "  %d %s: %q\n", m.ID, m.sender, m.Text)
		}
	}
	count := map[string]int{}
	for _, c := range p.calls {
		count[fmt.Sprintf("%s %d", c.Method, c.Code)]++
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

// endPoll ends the waiting poll of a bot. mu must be held.
func (p *Platform) endPoll(b *bot) {
	if b.polling != nil {
		close(b.polling)
		b.polling = nil
	}
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
	p.notify()
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
