package irc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/internal/recovery"
)

// host is what the connection says of itself: a [channel.Host].
type host interface {
	Received()
	ReportError(err error)
	ReportProgress(p channel.Progress)
	Log() *slog.Logger
}

// connection is one registered connection; it is a [chat.Platform].
type connection struct {
	// Set when it is made; wire guards itself.
	options     Options
	wire        *wire
	host        host
	connectedAt time.Time     // part of the keys of messages that have none
	server      serverInfo    // set by welcome
	channels    []*membership // to be in
	sendSlot    chan struct{} // taken by who asks the server something
	pings       atomic.Int64  // numbers of PINGs

	// Owned by who reads.
	received int // messages so far

	// Owned by mu.
	mu      sync.Mutex
	self    self
	joined  map[string]bool   // channels that the bot is in, folded
	people  map[string]person // by id, who has spoken
	pending *serverQuery      // under way; nil: none
}

// person is where somebody was heard last.
type person struct {
	nick     string
	folded   string
	lastSeen time.Time
}

// serverQuery is something that the server was asked, until its PONG.
type serverQuery struct {
	token   string
	onReply func(m *message) // gets what arrives before; within mu
	done    chan struct{}    // closed with the PONG
}

func newConnection(o Options, w *wire, l host) *connection {
	c := &connection{
		options: o, wire: w, host: l, connectedAt: time.Now(), sendSlot: make(chan struct{}, 1),
		joined: map[string]bool{}, people: map[string]person{},
	}
	for _, entry := range o.Join {
		name, key, _ := strings.Cut(entry, " ")
		c.channels = append(c.channels, &membership{name: name, key: key})
	}
	return c
}

// applyRegistration takes over what was agreed with the server.
func (c *connection) applyRegistration(r *registration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.self = r.server, r.self
}

func (c *connection) fold(name string) string { return fold(name, c.server.caseMapping) }

// maxBuffered is how many messages are read before they are taken.
const maxBuffered = 1000

// Receive implements [chat.Platform]. IRC has no history: what was said since
// position is lost. It reads on while something is taken, because whoever takes may
// send, and the receipt of that is to be read.
func (c *connection) Receive(ctx context.Context, _ string, take chat.EventHandler) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		defer recovery.Log(c.host.Log(), "the end of a connection")
		_ = c.wire.conn.SetReadDeadline(time.Unix(1, 0)) // a connection without one is closed, which ends the reading too
	})
	defer stop()
	c.host.Received() // it was let in
	events := make(chan *chat.Event, maxBuffered)
	var reading sync.WaitGroup
	var failed error
	reading.Go(func() {
		defer recovery.Log(c.host.Log(), "a reader of IRC")
		defer close(events)
		if failed = c.readMessages(ctx, events); ctx.Err() == nil {
			failed = errors.Join(failed, c.wire.close()) // no receipt is read any more
		}
	})
	defer reading.Wait()
	defer cancel()
	for e := range events {
		if err := take(ctx, *e); err != nil {
			return err
		}
	}
	return failed
}

// readMessages hands on what is said until the connection fails or ctx ends.
func (c *connection) readMessages(ctx context.Context, events chan<- *chat.Event) (err error) {
	defer recovery.Error(c.host.Log(), "a reader of IRC", &err)
	for {
		m, err := c.wire.read()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("the connection is lost: %w", err)
		}
		c.host.Received()
		event, err := c.handleMessage(m, time.Now())
		if err != nil {
			return err
		}
		if event == nil {
			continue
		}
		select {
		case events <- event:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// handleMessage does what a message is for, and returns what somebody said in it, if
// anybody did.
func (c *connection) handleMessage(m *message, now time.Time) (*chat.Event, error) {
	switch m.Command {
	case "PING":
		return nil, c.wire.write("PONG :" + m.trailing())
	case "ERROR":
		return nil, fmt.Errorf("the server closed the connection: %s", reasonText(m))
	case "465":
		return nil, loginError(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own := m.from.Name != "" && c.fold(m.from.Name) == c.fold(c.self.nick)
	if own && m.from.User != "" && m.from.Host != "" {
		c.self.user, c.self.host = m.from.User, m.from.Host
	}
	if q := c.pending; q != nil {
		if m.Command == "PONG" && m.trailing() == q.token {
			c.pending = nil
			close(q.done)
			return nil, nil
		}
		q.onReply(m)
	}
	switch m.Command {
	case "NICK":
		c.onNick(m, own)
	case "396": // the host that others see from now on
		c.self.host = m.param(1)[strings.IndexByte(m.param(1), '@')+1:]
	case "JOIN", "PART", "KICK":
		return nil, c.onMembership(m, own, now)
	case "QUIT":
		c.forgetNick(m.from.Name)
	case "PRIVMSG":
		if own {
			return nil, nil // its echo
		}
		return c.messageEvent(m, now), nil
	default:
		if isJoinRefusal(m.Command) {
			c.onJoinRefused(m, now)
		}
	}
	return nil, nil
}

// onNick follows a change of a nick; within mu.
func (c *connection) onNick(m *message, own bool) {
	if own {
		c.self.nick = m.param(0)
		c.host.Log().Info("the bot has another nick", "nick", c.self.nick)
		return
	}
	before := c.fold(m.from.Name)
	for id, p := range c.people {
		if p.folded != before {
			continue
		}
		if strings.Contains(id, "!") {
			delete(c.people, id) // the nick is part of who it is
		} else {
			p.nick, p.folded = m.param(0), c.fold(m.param(0))
			c.people[id] = p
		}
	}
}

// onMembership follows who comes and goes; within mu.
func (c *connection) onMembership(m *message, own bool, now time.Time) error {
	switch {
	case m.Command == "JOIN" && own:
		return c.onJoined(m.param(0), now)
	case m.Command == "PART" && own, m.Command == "KICK" && c.fold(m.param(1)) == c.fold(c.self.nick):
		c.onLeft(m.param(0), reasonText(m), now)
	case m.Command == "JOIN":
		c.forgetNick(m.from.Name) // the nick may be another person's now
	}
	return nil
}

// recordPerson remembers where somebody is; within mu. Who had the nick before has it no
// more.
func (c *connection) recordPerson(id, nick string, now time.Time) {
	const most = 1000
	c.forgetNick(nick)
	if len(c.people) >= most {
		oldest, first := "", now
		for id, p := range c.people {
			if !p.lastSeen.After(first) {
				oldest, first = id, p.lastSeen
			}
		}
		delete(c.people, oldest)
	}
	c.people[id] = person{nick: nick, folded: c.fold(nick), lastSeen: now}
}

// forgetNick that a nick is somebody; within mu.
func (c *connection) forgetNick(nick string) {
	folded := c.fold(nick)
	for id, p := range c.people {
		if p.folded == folded {
			delete(c.people, id)
		}
	}
}

// Maintain implements [chat.Platform]: it asks the server whether it is there, and takes
// what is the bot's: its nick, and its place in channels.
func (c *connection) Maintain(ctx context.Context) error {
	every := time.NewTicker(c.options.Fresh / 2)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wire.closed:
			return errors.New("the connection is closed")
		case <-every.C:
		}
		lines := []string{"PING :fresh"}
		c.mu.Lock()
		if c.fold(c.self.nick) != c.fold(c.options.Nick) {
			lines = append(lines, "NICK "+c.options.Nick)
		}
		c.mu.Unlock()
		if err := c.wire.write(lines...); err != nil {
			return fmt.Errorf("ask the server whether it is there: %w", err)
		}
		if err := c.joinChannels(time.Now()); err != nil {
			return fmt.Errorf("join: %w", err)
		}
	}
}

// Edit implements [chat.Platform]; IRC has none.
func (c *connection) Edit(context.Context, chat.Room, string, chat.Message) error {
	return permanent("IRC has no edits")
}

// Find implements [chat.Platform].
func (c *connection) Find(context.Context, chat.Room, string, chat.Message) (string, bool, error) {
	return "", false, chat.ErrNoHistory
}

// Typing implements [chat.Platform]; IRC shows none.
func (c *connection) Typing(context.Context, chat.Room) error {
	return permanent("IRC does not show who is typing")
}

// AckButton implements [chat.Platform]; IRC has no buttons.
func (c *connection) AckButton(context.Context, chat.Event, string) error {
	return permanent("IRC has no buttons")
}

// SetOpen implements [chat.Platform]; IRC has no files.
func (c *connection) SetOpen(*chat.File) {}

// Close implements [chat.Platform]. It takes its leave, so that the nick is free
// for who comes next.
func (c *connection) Close() error {
	c.wire.quit()
	return c.wire.close()
}

func permanent(format string, args ...any) error {
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf(format, args...)}
}

func unavailable(after time.Duration, format string, args ...any) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after, Err: fmt.Errorf(format, args...)}
}

var _ chat.Platform = (*connection)(nil)
var _ host = (*channel.Host)(nil)
