// Package discordtest is a Discord for tests: a bot calls it as it calls the real HTTP
// API and gateway, people talk and press buttons, and it fails as it is told.
//
// There is one server, with one bot. A session lives on when its connection is lost, and
// can be resumed until it is forgotten. What the real platform refuses is refused.
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

// The bot that there is, and the server that it is in.
const (
	Token    = "NzAwMTAwMjAwMzAwNDAwNTAw.GfAkEt.TheSecretOfTheBotThatIsUsedInTests-0"
	BotID    = "700100200300400500"
	AppID    = "700100200300400501"
	Username = "mailroom"
	ServerID = "600100200300400500"
	RoleID   = "600100200300400501" // the bot's own, in the server
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

// Fault is how one call fails.
type Fault struct {
	Status     int           // answered instead, as the platform says no
	Code       int           // the platform's own
	Message    string        // of it
	RetryAfter float64       // seconds, with Status
	Global     bool          // the wait is for all calls
	Raw        string        // answered as it is, with Status or 200: what is no API
	Hang       bool          // never answered
	Half       bool          // the answer breaks off
	Lose       bool          // the call is done, and its answer lost
	Hold       chan struct{} // the call is done, and answered when this is closed
}

// Platform is the server. Its methods may be called concurrently.
type Platform struct {
	URL string // of the API, with its version

	host   string
	server *http.Server

	// Owned by mu.
	mu          sync.Mutex
	changed     chan struct{} // closed when something has happened
	quit        context.CancelFunc
	token       string
	last        uint64 // id that was given last
	channels    map[string]*Channel
	people      int
	files       map[string][]byte // by the path and query that hands them out
	calls       []Call
	faults      map[string][]Fault
	frozen      chan struct{} // closed when what is half-open is so no more; nil if nothing is
	limits      map[string]time.Time
	exhausted   map[string]time.Duration // until when the next answer of a call says that it is the last
	globalUntil time.Time                // nothing is taken before
	presses     map[string]*ButtonPress
	nonces      map[string]*Message
	showNonces  bool     // nonces are in histories
	pinged      []string // texts that have called somebody
	lastMessage map[string]any

	interval       time.Duration
	messageContent bool // the Message Content intent is on
	outage         bool // of the server
	noResume       bool // the address at which sessions are resumed is not there
	starts         int  // of sessions that are left
	sessions       map[string]*session
	links          map[*gatewayConn]bool
	started        int // sessions
	resumed        int
	heartbeatSeqs  []int64 // the numbers that heartbeats had, 0 for none
}

// Call is a call that the platform has got.
type Call struct {
	Name   string
	Path   string
	Params map[string]any
	Agent  string // User-Agent
	Auth   string // Authorization
	At     time.Time
	Status int // 0: it was not answered as it should be
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

// Up lets the platform listen where it was.
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
	go func() { _ = server.Serve(ln) }() // ends with Down, and says nothing else
}

// Down breaks all connections and refuses others from now on. What it knows stays, and
// so do the sessions.
func (p *Platform) Down() {
	p.mu.Lock()
	server, quit := p.server, p.quit
	p.server = nil
	p.mu.Unlock()
	quit()
	if server != nil {
		_ = server.Close() // there is nothing to be done about it
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

// CloseWith ends the connections to the gateway with a code.
func (p *Platform) CloseWith(code int, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.code, l.reason = code, reason
	}
	p.notify()
}

// SendOp sends a frame over the connections to the gateway: 7 for another connection, 9
// for a session that is not known any more.
func (p *Platform) SendOp(op int, data any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.out = append(l.out, map[string]any{"op": op, "d": data})
	}
	p.notify()
}

// Forget has no session resumed that there is now.
func (p *Platform) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		s.invalid = true
	}
}

// RefuseResume has nobody at the address at which sessions are resumed.
func (p *Platform) RefuseResume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noResume = true
}

// Freeze leaves all connections open and answers nothing any more, until Thaw.
func (p *Platform) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
	for l := range p.links {
		l.frozen = true
	}
	p.notify()
}

// Thaw answers again. What was asked meanwhile has been lost.
func (p *Platform) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.frozen)
	p.frozen = nil
	p.notify()
}

// SetToken gives the bot another token; connections with the old one end.
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

// ReplaceToken changes the token alone, as if the gateway did not notice.
func (p *Platform) ReplaceToken(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = token
}

// SetMessageContent turns the Message Content intent of the bot on or off.
func (p *Platform) SetMessageContent(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messageContent = on
}

// SetHeartbeatInterval sets how often the gateway wants a heartbeat, on connections to come.
func (p *Platform) SetHeartbeatInterval(every time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interval = every
}

// SetRemainingStarts sets how many sessions may be begun.
func (p *Platform) SetRemainingStarts(left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts = left
}

// SetOutage has the server gone, or back.
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

// Fail has the next calls of a name fail, one fault each.
func (p *Platform) Fail(name string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[name] = append(p.faults[name], faults...)
}

// Limit has all that is sent to a channel refused with 429 for a time.
func (p *Platform) Limit(c *Channel, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[c.ID] = time.Now().Add(d)
}

// LimitAll refuses everything with 429 for a time.
func (p *Platform) LimitAll(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.globalUntil = time.Now().Add(d)
}

// ExhaustLimit has the next answer to a call say that it was the last one for a time.
func (p *Platform) ExhaustLimit(name string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exhausted[name] = d
}

// ForgetNonces is what the platform does after some minutes.
func (p *Platform) ForgetNonces() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.nonces)
}

// ShowNonces has histories name the nonces of messages.
func (p *Platform) ShowNonces() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.showNonces = true
}

// Pinged are the texts that have called somebody who was named in them.
func (p *Platform) Pinged() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.pinged)
}

// Sessions says how many were begun, and how often one was resumed.
func (p *Platform) Sessions() (began, resumed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started, p.resumed
}

// HeartbeatSeqs are the numbers of events that heartbeats had, 0 for none.
func (p *Platform) HeartbeatSeqs() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heartbeatSeqs)
}

// Connections is how many connections to the gateway are in a session.
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

// Calls are those of a name; all calls with "".
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
			t.Fatalf("Discord never saw %s; it has:\n%s", what, p.String())
		}
	}
}

// String tells what is in the channels, and how often what was called.
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
	fmt.Fprintf(&out, "sessions begun: %d, resumed: %d\n", p.started, p.resumed)
	count := map[string]int{}
	for _, c := range p.calls {
		count[fmt.Sprintf("%s %d", c.Name, c.Status)]++
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

// nextID gives the next one. It is within mu.
func (p *Platform) nextID() string {
	n := uint64(time.Now().UnixMilli()-1420070400000) << 22
	p.last = max(n, p.last+1)
	return strconv.FormatUint(p.last, 10)
}
