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

// host is the part of [channel.Host] that a connection uses.
type host interface {
	Received()
	ReportError(err error)
	ReportProgress(p channel.Progress)
	Log() *slog.Logger
}

// connection is one registered connection. It implements [chat.Platform].
type connection struct {
	// Set when it is created; wire has its own locks.
	options     Options
	wire        *wire
	host        host
	connectedAt time.Time     // part of the keys of messages without an id
	server      serverInfo    // set by applyRegistration
	channels    []*membership // channels to join
	sendSlot    chan struct{} // held while a query to the server is running
	pings       atomic.Int64  // counter for PING tokens

	// Owned by the reader.
	received int      // number of messages so far
	playback playback // state of the messages that a bouncer repeats

	// Owned by mu.
	mu      sync.Mutex
	self    self
	joined  map[string]bool   // channels the bot is in, by folded name
	people  map[string]person // people who have spoken, by user id
	pending *serverQuery      // the running query, or nil
}

// person is the last known nick of a user.
type person struct {
	nick     string
	folded   string
	lastSeen time.Time
}

// serverQuery is a line sent to the server that waits for the PONG after it.
type serverQuery struct {
	token   string
	onReply func(m *message) // called for each message before the PONG; mu is held
	done    chan struct{}    // closed by the PONG
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

// applyRegistration copies the result of the registration.
func (c *connection) applyRegistration(r *registration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.self = r.server, r.self
}

func (c *connection) fold(name string) string { return fold(name, c.server.caseMapping) }

// maxBuffered bounds the events read ahead of the handler.
const maxBuffered = 1000

// Receive implements [chat.Platform]. IRC has no history, so messages sent since the position are
// lost unless a bouncer repeats them. It keeps reading while the handler runs, because the handler may send and wait
// for the receipt.
func (c *connection) Receive(ctx context.Context, position string, take chat.EventHandler) error {
	c.playback.resume(position)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		defer recovery.Log(c.host.Log(), "irc connection shutdown")
		_ = c.wire.conn.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection, which ends reading too
	})
	defer stop()
	c.host.Received() // the server accepted the registration
	events := make(chan *chat.Event, maxBuffered)
	var reading sync.WaitGroup
	var failed error
	reading.Go(func() {
		defer recovery.Log(c.host.Log(), "irc reader")
		defer close(events)
		if failed = c.readMessages(ctx, events); ctx.Err() == nil {
			failed = errors.Join(failed, c.wire.close()) // no receipt can arrive any more
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

// readMessages sends events to the channel until the connection fails or ctx ends.
func (c *connection) readMessages(ctx context.Context, events chan<- *chat.Event) (err error) {
	defer recovery.Error(c.host.Log(), "irc reader", &err)
	for {
		m, err := c.wire.read()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("connection lost: %w", err)
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

// handleMessage processes a message of the server and returns an event if it was a chat message.
func (c *connection) handleMessage(m *message, now time.Time) (*chat.Event, error) {
	switch m.Command {
	case "PING":
		return nil, c.wire.write("PONG :" + m.trailing())
	case "ERROR":
		return nil, fmt.Errorf("the server closed the connection: %s", reasonText(m))
	case "465":
		return nil, loginError(m)
	}
	c.playback.syncClock(m, now)
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
	case "396": // the bot's visible host has changed
		c.self.host = m.param(1)[strings.IndexByte(m.param(1), '@')+1:]
	case "BATCH":
		c.playback.onBatch(m)
	case "JOIN", "PART", "KICK":
		return nil, c.onMembership(m, own, now)
	case "QUIT":
		c.forgetNick(m.from.Name)
	case "PRIVMSG":
		if own {
			return nil, nil // echo of the bot's own message
		}
		return c.messageEvent(m, now), nil
	default:
		if isJoinRefusal(m.Command) {
			c.onJoinRefused(m, now)
		}
	}
	return nil, nil
}

// onNick handles a changed nick. The caller holds mu.
func (c *connection) onNick(m *message, own bool) {
	if own {
		c.self.nick = m.param(0)
		c.host.Log().Info("nick changed", "nick", c.self.nick)
		return
	}
	before := c.fold(m.from.Name)
	for id, p := range c.people {
		if p.folded != before {
			continue
		}
		if strings.Contains(id, "!") {
			delete(c.people, id) // the nick is part of this id
		} else {
			p.nick, p.folded = m.param(0), c.fold(m.param(0))
			c.people[id] = p
		}
	}
}

// onMembership handles JOIN, PART and KICK. The caller holds mu.
func (c *connection) onMembership(m *message, own bool, now time.Time) error {
	switch {
	case m.Command == "JOIN" && own:
		return c.onJoined(m.param(0), now)
	case m.Command == "PART" && own, m.Command == "KICK" && c.fold(m.param(1)) == c.fold(c.self.nick):
		c.onLeft(m.param(0), reasonText(m), now)
	case m.Command == "JOIN":
		c.forgetNick(m.from.Name) // another person may use the nick now
	}
	return nil
}

// recordPerson stores the nick of a user and removes it from its previous user. The caller holds
// mu.
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

// forgetNick removes the users known by a nick. The caller holds mu.
func (c *connection) forgetNick(nick string) {
	folded := c.fold(nick)
	for id, p := range c.people {
		if p.folded == folded {
			delete(c.people, id)
		}
	}
}

// Maintain implements [chat.Platform]. It pings the server, reclaims the bot's nick and rejoins its
// channels.
func (c *connection) Maintain(ctx context.Context) error {
	every := time.NewTicker(c.options.Fresh / 2)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wire.closed:
			return errors.New("the connection to the IRC server was closed")
		case <-every.C:
		}
		lines := []string{"PING :fresh"}
		c.mu.Lock()
		if c.fold(c.self.nick) != c.fold(c.options.Nick) {
			lines = append(lines, "NICK "+c.options.Nick)
		}
		c.mu.Unlock()
		if err := c.wire.write(lines...); err != nil {
			return fmt.Errorf("ping server: %w", err)
		}
		if err := c.joinChannels(time.Now()); err != nil {
			return fmt.Errorf("join channels: %w", err)
		}
	}
}

// Edit implements [chat.Platform]. IRC has no edits.
func (c *connection) Edit(context.Context, chat.Room, string, chat.Message) error {
	return permanent("IRC has no edits")
}

// Find implements [chat.Platform].
func (c *connection) Find(context.Context, chat.Room, string, chat.Message) (string, bool, error) {
	return "", false, chat.ErrNoHistory
}

// Typing implements [chat.Platform]. IRC has no typing indicator.
func (c *connection) Typing(context.Context, chat.Room) error {
	return permanent("IRC has no typing indicator")
}

// AckButton implements [chat.Platform]. IRC has no buttons.
func (c *connection) AckButton(context.Context, chat.Event, string) error {
	return permanent("IRC has no buttons")
}

// SetOpen implements [chat.Platform]. IRC has no files.
func (c *connection) SetOpen(*chat.File) {}

// Close implements [chat.Platform]. It sends QUIT, so that the nick is free for the next
// connection.
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
