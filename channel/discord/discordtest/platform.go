// Package discordtest is a fake of Discord for tests. A bot calls it like the real HTTP API and
// gateway, people send messages and press buttons, and it fails on demand.
//
// There is one server with one bot. A session outlives its connection and can be resumed until
// it is forgotten. The fake rejects what Discord rejects.
package discordtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/channel/platformtest"
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

// Fault and Call are the types that all fakes share. The code of an error is Discord's numeric one.
type (
	Fault = platformtest.Fault
	Call  = platformtest.Call
)

// Platform is the fake server. Its methods are safe for concurrent use.
type Platform struct {
	*platformtest.Server
	URL string // base URL of the API, with its version

	// Owned by mu.
	mu          sync.Mutex
	token       string
	last        uint64 // the last id given out
	channels    map[string]*Channel
	people      int
	files       map[string][]byte // by path and query
	limits      map[string]time.Time
	exhausted   map[string]time.Duration // by call: how long its limit is used up after the next response
	globalUntil time.Time                // all calls are rejected until then
	presses     map[string]*ButtonPress
	nonces      map[string]*Message
	noFiles     bool     // the bot may not attach files
	showNonces  bool     // histories include nonces
	pinged      []string // texts with effective mentions
	lastMessage map[string]any

	interval       time.Duration
	messageContent bool // the Message Content intent is on
	outage         bool // the server is unavailable
	noResume       bool // the resume URL does not exist
	starts         int  // remaining session starts, which Discord limits
	sessions       map[string]*session
	links          map[*gatewayConn]bool
	started        int // sessions started
	resumed        int
	heartbeatSeqs  []int64 // sequence numbers of heartbeats, 0 for none
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
		token: Token, channels: map[string]*Channel{}, files: map[string][]byte{}, limits: map[string]time.Time{},
		exhausted: map[string]time.Duration{}, presses: map[string]*ButtonPress{}, nonces: map[string]*Message{},
		interval: 40 * time.Second, messageContent: true, starts: 1000, sessions: map[string]*session{},
		links: map[*gatewayConn]bool{},
	}
	p.Server = platformtest.NewServer(t, &p.mu, p)
	p.URL = "http://" + p.Addr + "/api/v10"
	return p
}

// Cut breaks the connections to the gateway.
func (p *Platform) Cut() {
	p.Update(func() {
		for l := range p.links {
			l.cut = true
		}
	})
}

// CloseWith closes the connections to the gateway with a code.
func (p *Platform) CloseWith(code int, reason string) {
	p.Update(func() {
		for l := range p.links {
			l.code, l.reason = code, reason
		}
	})
}

// SendOp sends a frame with an opcode to all connections, such as 7 (reconnect) or 9 (invalid
// session).
func (p *Platform) SendOp(op int, data any) {
	p.Update(func() {
		for l := range p.links {
			l.out = append(l.out, map[string]any{"op": op, "d": data})
		}
	})
}

// Forget invalidates all sessions.
func (p *Platform) Forget() {
	p.Update(func() {
		for _, s := range p.sessions {
			s.invalid = true
		}
	})
}

// RefuseResume makes the resume URL answer 404.
func (p *Platform) RefuseResume() {
	p.Update(func() { p.noResume = true })
}

// Freeze keeps all connections open and answers nothing until Thaw, which ends the connections.
func (p *Platform) Freeze() {
	p.Server.Freeze()
	p.Update(func() {
		for l := range p.links {
			l.frozen = true
		}
	})
}

// SetToken gives the bot a new token and closes its connections and sessions.
func (p *Platform) SetToken(token string) {
	p.Update(func() {
		p.token = token
		for l := range p.links {
			l.code, l.reason = 4004, "Authentication failed."
		}
		for _, s := range p.sessions {
			s.invalid = true
		}
	})
}

// ReplaceToken gives the bot a new token without closing its connections.
func (p *Platform) ReplaceToken(token string) {
	p.Update(func() { p.token = token })
}

// SetMessageContent turns the bot's Message Content intent on or off.
func (p *Platform) SetMessageContent(on bool) {
	p.Update(func() { p.messageContent = on })
}

// SetHeartbeatInterval sets the heartbeat interval of new connections.
func (p *Platform) SetHeartbeatInterval(every time.Duration) {
	p.Update(func() { p.interval = every })
}

// SetRemainingStarts sets how many sessions may start.
func (p *Platform) SetRemainingStarts(left int) {
	p.Update(func() { p.starts = left })
}

// SetOutage makes the server unavailable, or available again.
func (p *Platform) SetOutage(gone bool) {
	p.Update(func() {
		p.outage = gone
		if gone {
			p.push("GUILD_DELETE", map[string]any{"id": ServerID, "unavailable": true})
		} else {
			p.push("GUILD_CREATE", p.guild())
		}
	})
}

// Limit rejects all writes to a channel with 429 for d.
func (p *Platform) Limit(c *Channel, d time.Duration) {
	p.Update(func() { p.limits[c.ID] = time.Now().Add(d) })
}

// LimitAll rejects all calls with 429 for d.
func (p *Platform) LimitAll(d time.Duration) {
	p.Update(func() { p.globalUntil = time.Now().Add(d) })
}

// ExhaustLimit makes the next response of a call report that its rate limit is used up for d.
func (p *Platform) ExhaustLimit(name string, d time.Duration) {
	p.Update(func() { p.exhausted[name] = d })
}

// ShowNonces includes nonces in histories.
func (p *Platform) ShowNonces() {
	p.Update(func() { p.showNonces = true })
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

// String lists the messages of all channels and counts the sessions and the calls.
func (p *Platform) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(p.channels)) {
		out.WriteString(p.channels[id].Describe(id + " " + p.channels[id].Name))
	}
	fmt.Fprintf(&out, "sessions started: %d, resumed: %d\n", p.started, p.resumed)
	return out.String() + p.CountCalls()
}

// nextID returns a new id. mu must be held.
func (p *Platform) nextID() string {
	n := uint64(time.Now().UnixMilli()-1420070400000) << 22
	p.last = max(n, p.last+1)
	return strconv.FormatUint(p.last, 10)
}
