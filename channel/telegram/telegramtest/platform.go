// Package telegramtest is a Telegram for tests: bots call it as they call the real
// Bot API, people talk and press buttons, and it fails as it is told.
//
// Updates are kept until a poll with an offset above them confirms them, and are gone
// then. Whoever polls ends the poll of another one of the same bot.
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

// The bot that there is at first.
const (
	Token    = "700100200:AAFakeTokenOfTheBotThatIsUsedInTests"
	BotID    = 700100200
	Username = "mailroom_bot"
)

// Fault is how one call fails.
type Fault struct {
	Code       int           // answered instead, as the platform says no
	Message    string        // of it
	RetryAfter int           // seconds, with Code
	Raw        string        // answered as it is, with Code or 200: what is no Bot API
	Hang       bool          // never answered
	Half       bool          // the answer breaks off
	Lose       bool          // the call is done, and its answer lost
	Hold       chan struct{} // the call is done, and answered when this is closed
}

// Platform is the server. Its methods may be called concurrently.
type Platform struct {
	URL string

	server *http.Server

	// Owned by mu.
	mu        sync.Mutex
	changed   chan struct{} // closed when something has happened
	quit      context.CancelFunc
	bots      map[string]*bot // by token
	chats     map[int64]*Chat
	people    int64
	files     map[string]storedFile // by id
	held      chan struct{}         // closed when files come to their end; nil: at once
	downloads int
	calls     []Call
	faults    map[string][]Fault // by method
	frozen    chan struct{}      // closed when what is half-open is so no more; nil if nothing is
	limits    map[int64]time.Time
	presses   map[string]*ButtonPress // by the id of the query
	nextPress int
}

// bot is one of the bots there are.
type bot struct {
	id       int64
	username string
	readsAll bool
	revoked  bool
	webhook  string
	commands []any
	updates  []queuedUpdate
	nextID   int64
	polls    int           // number of the last poll
	polling  chan struct{} // closed when a later poll ends the present one; nil if there is none
}

type queuedUpdate struct {
	id  int64
	raw map[string]any
}

// Call is a call that the platform has got.
type Call struct {
	Method string
	Params map[string]any
	At     time.Time
	Code   int // 200, or why it was refused; 0: it was not answered as it should be
}

type storedFile struct {
	path, name string
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

// AddBot makes a bot, or gives one another token: the old one is revoked.
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

// Revoke makes a token one that is not known any more.
func (p *Platform) Revoke(token string, revoked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bots[token].revoked = revoked
	if revoked {
		p.endPoll(p.bots[token])
	}
}

// SetWebhook has updates go elsewhere, as somebody else would; "" has them polled.
func (p *Platform) SetWebhook(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bots[Token].webhook = url
	if url != "" {
		p.endPoll(p.bots[Token])
	}
}

// SetReadsAll turns the privacy mode of the bot off, or on again.
func (p *Platform) SetReadsAll(all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bots[Token].readsAll = all
}

// Up lets the platform listen where it was.
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
	go func() { _ = server.Serve(ln) }() // ends with Down, and says nothing else
}

// Down breaks all connections and refuses others from now on. What it knows stays.
func (p *Platform) Down() {
	p.mu.Lock()
	server, quit := p.server, p.quit
	p.server = nil
	p.mu.Unlock()
	quit()
	if server != nil {
		_ = server.Close() // there is nothing to be done about it
	}
}

// Freeze leaves all connections open and answers nothing any more, until Thaw.
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
}

// Fail has the next calls of a method fail, one fault each.
func (p *Platform) Fail(method string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[method] = append(p.faults[method], faults...)
}

// Limit has all that is sent to a chat refused with 429 for a time, with the rest of
// it as retry_after.
func (p *Platform) Limit(c *Chat, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[c.ID] = time.Now().Add(d)
}

// SetNextUpdateID has the ids of updates go on from here, as after a week without any.
func (p *Platform) SetNextUpdateID(next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bots[Token].nextID = next
}

// Redeliver hands an update out another time, although it was confirmed: the last one
// that was made.
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

// Pending are the updates that nobody has confirmed.
func (p *Platform) Pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bots[Token].updates)
}

// Commands are the bot's menu.
func (p *Platform) Commands() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bots[Token].commands)
}

// Webhook is where updates go; "" if they are polled.
func (p *Platform) Webhook() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bots[Token].webhook
}

// HoldFiles has each download stop in the middle until release.
func (p *Platform) HoldFiles() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(chan struct{})
	p.held = held
	return func() { close(held) }
}

// Downloads is how many files were asked for.
func (p *Platform) Downloads() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.downloads
}

// Calls are those of a method; of all methods with "".
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
			t.Fatalf("Telegram never saw %s; it has:\n%s", what, p.String())
		}
	}
}

// String tells what is in the chats, and how often what was called.
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

// notify wakes who waits. It is within mu.
func (p *Platform) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// endPoll ends the poll that waits. It is within mu.
func (p *Platform) endPoll(b *bot) {
	if b.polling != nil {
		close(b.polling)
		b.polling = nil
	}
}

// push makes an update of the bot that is asked first. It is within mu.
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
