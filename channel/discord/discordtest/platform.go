// Package discordtest is a fake of Discord for tests. A bot calls it like the real HTTP API and
// gateway, people send messages and press buttons, and it fails on demand.
//
// There is one server with one bot. A session outlives its connection and can be resumed until
// it is forgotten. The fake rejects what Discord rejects.
package discordtest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The bot, and the server that it is in.
const (
	Token    = "NzAwMTAwMjAwMzAwNDAwNTAw.GfAkEt.TheSecretOfTheBotThatIsUsedInTests-0"
	BotID    = "700100200300400500"
	AppID    = "700100200300400501"
	Username = "mailroom"
	ServerID = "600100200300400500"
	RoleID   = "600100200300400501" // the bot's own role in the server
)

// Names of calls, for faults and counts.
const (
	Send     = "send"
	Edit     = "edit"
	Typing   = "typing"
	History  = "history"
	Lookup   = "lookup"
	Gateway  = "gateway"
	Me       = "me"
	App      = "app"
	Callback = "callback"
	FollowUp = "follow-up"
	File     = "file"
)

// Fault describes how one call fails.
type Fault struct {
	Status     int           // status of an error response; the call is not done
	Code       int           // JSON error code
	Message    string        // message of the error response
	RetryAfter float64       // in seconds, with Status
	Global     bool          // the limit applies to all calls
	Raw        string        // response body as is, with Status or 200
	Hang       bool          // no response
	Half       bool          // the call is done, and half of the response is sent
	Lose       bool          // the call is done, and the response is lost
	Hold       chan struct{} // the call is done, and answered once this is closed
}

// Platform is the fake server. Its methods are safe for concurrent use.
type Platform struct {
	URL string // base URL of the API, with its version

	host   string
	server *http.Server

	// Owned by mu.
	mu          sync.Mutex
	changed     chan struct{} // closed and replaced when something has changed
	quit        context.CancelFunc
	token       string
	last        uint64 // the last id given out
	channels    map[string]*Channel
	people      int
	files       map[string][]byte // by path and query
	calls       []Call
	faults      map[string][]Fault
	frozen      chan struct{} // closed by Thaw; nil if not frozen
	limits      map[string]time.Time
	exhausted   map[string]time.Duration // by call: how long its limit is used up after the next response
	globalUntil time.Time                // all calls are rejected until then
	presses     map[string]*ButtonPress
	nonces      map[string]*Message
	showNonces  bool     // histories include nonces
	pinged      []string // texts with effective mentions
	lastMessage map[string]any

	interval       time.Duration
	messageContent bool // the Message Content intent is on
	outage         bool // the server is unavailable
	noResume       bool // the resume URL does not exist
	starts         int  // session starts left
	sessions       map[string]*session
	links          map[*gatewayConn]bool
	started        int // sessions started
	resumed        int
	heartbeatSeqs  []int64 // sequence numbers of heartbeats, 0 for none
}

// Call is a call that the platform received.
type Call struct {
	Name   string
	Path   string
	Params map[string]any
	Agent  string // User-Agent
	Auth   string // Authorization
	At     time.Time
	Status int // status of the response; 0 if none was sent in full
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
		URL: "http://" + ln.Addr().String() + "/api/v10", host: ln.Addr().String(),
		changed: make(chan struct{}), quit: func() {}, token: Token, channels: map[string]*Channel{}, files: map[string][]byte{},
		faults: map[string][]Fault{}, limits: map[string]time.Time{}, exhausted: map[string]time.Duration{}, presses: map[string]*ButtonPress{},
		nonces: map[string]*Message{}, interval: 40 * time.Second, messageContent: true, starts: 1000,
		sessions: map[string]*session{}, links: map[*gatewayConn]bool{},
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Down)
	return p
}

// Up starts listening on the platform's address.
func (p *Platform) Up(t testing.TB) {
	t.Helper()
	ln, err := net.Listen("tcp", p.host)
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

// Down closes all connections and refuses new ones. The state and the sessions are kept.
func (p *Platform) Down() {
	p.mu.Lock()
	server, quit := p.server, p.quit
	p.server = nil
	p.mu.Unlock()
	quit()
	if server != nil {
		_ = server.Close() // the server is gone either way
	}
	p.Cut()
}

// Cut breaks the connections to the gateway.
func (p *Platform) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut = true
	}
	p.notify()
}

// CloseWith closes the connections to the gateway with a code.
func (p *Platform) CloseWith(code int, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.code, l.reason = code, reason
	}
	p.notify()
}

// SendOp sends a frame with an opcode to all connections, such as 7 (reconnect) or 9 (invalid
// session).
func (p *Platform) SendOp(op int, data any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.out = append(l.out, map[string]any{"op": op, "d": data})
	}
	p.notify()
}

// Forget invalidates all sessions.
func (p *Platform) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		s.invalid = true
	}
}

// RefuseResume makes the resume URL answer 404.
func (p *Platform) RefuseResume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noResume = true
}

// Freeze keeps all connections open and answers nothing until Thaw.
func (p *Platform) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
	for l := range p.links {
		l.frozen = true
	}
	p.notify()
}

// Thaw answers again. Calls made while frozen are lost.
func (p *Platform) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.frozen)
	p.frozen = nil
	p.notify()
}

// SetToken gives the bot a new token and closes its connections and sessions.
func (p *Platform) SetToken(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = token
	for l := range p.links {
		l.code, l.reason = 4004, "Authentication failed."
	}
	for _, s := range p.sessions {
		s.invalid = true
	}
	p.notify()
}

// ReplaceToken gives the bot a new token without closing its connections.
func (p *Platform) ReplaceToken(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = token
}

// SetMessageContent turns the bot's Message Content intent on or off.
func (p *Platform) SetMessageContent(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messageContent = on
}

// SetHeartbeatInterval sets the heartbeat interval of new connections.
func (p *Platform) SetHeartbeatInterval(every time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interval = every
}

// SetRemainingStarts sets how many sessions may start.
func (p *Platform) SetRemainingStarts(left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts = left
}

// SetOutage makes the server unavailable, or available again.
func (p *Platform) SetOutage(gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outage = gone
	if gone {
		p.push("GUILD_DELETE", map[string]any{"id": ServerID, "unavailable": true})
	} else {
		p.push("GUILD_CREATE", p.guild())
	}
}

// Fail makes the next calls of a name fail, one fault each.
func (p *Platform) Fail(name string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[name] = append(p.faults[name], faults...)
}

// Limit rejects all writes to a channel with 429 for d.
func (p *Platform) Limit(c *Channel, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[c.ID] = time.Now().Add(d)
}

// LimitAll rejects all calls with 429 for d.
func (p *Platform) LimitAll(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.globalUntil = time.Now().Add(d)
}

// ExhaustLimit makes the next response of a call report that its rate limit is used up for d.
func (p *Platform) ExhaustLimit(name string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exhausted[name] = d
}

// ForgetNonces drops all nonces, as Discord does after some minutes.
func (p *Platform) ForgetNonces() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.nonces)
}

// ShowNonces includes nonces in histories.
func (p *Platform) ShowNonces() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.showNonces = true
}

// Pinged returns the texts whose mentions notified people.
func (p *Platform) Pinged() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.pinged)
}

// Sessions returns how many sessions were started, and how often one was resumed.
func (p *Platform) Sessions() (started, resumed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started, p.resumed
}

// HeartbeatSeqs returns the sequence numbers of the heartbeats, 0 for none.
func (p *Platform) HeartbeatSeqs() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heartbeatSeqs)
}

// Connections returns the number of gateway connections in a session.
func (p *Platform) Connections() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.session != nil && !l.frozen {
			n++
		}
	}
	return n
}

// Calls returns the calls of a name, or all calls for "".
func (p *Platform) Calls(name string) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Call
	for _, c := range p.calls {
		if name == "" || c.Name == name {
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

// String lists the messages of all channels and counts the sessions and the calls by name and
// status.
func (p *Platform) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(p.channels)) {
		fmt.Fprintf(&out, "channel %s %s\n", id, p.channels[id].Name)
		for _, m := range p.channels[id].messages {
			fmt.Fprintf(&out, "  %s %s: %q\n", m.ID, m.sender, m.Text)
		}
	}
	fmt.Fprintf(&out, "sessions started: %d, resumed: %d\n", p.started, p.resumed)
	count := map[string]int{}
	for _, c := range p.calls {
		count[fmt.Sprintf("%s %d", c.Name, c.Status)]++
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

// nextID returns a new id. mu must be held.
func (p *Platform) nextID() string {
	n := uint64(time.Now().UnixMilli()-1420070400000) << 22
	p.last = max(n, p.last+1)
	return strconv.FormatUint(p.last, 10)
}
