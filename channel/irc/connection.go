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

// listener is what the connection says of itself: a [channel.Host].
type listener interface {
	Received()
	ReportError(err error)
	ReportProgress(p channel.Progress)
	Log() *slog.Logger
}

// connection is one registered connection; it is a [chat.Platform].
type connection struct {
	// Set when it is made; wire guards itself.
	options  Options
	wire     *wire
	link     listener
	made     time.Time     // part of the keys of messages that have none
	server   about         // set by welcome
	channels []*membership // to be in
	slot     chan struct{} // taken by who asks the server something
	tokens   atomic.Int64  // numbers of PINGs

	// Owned by who reads.
	heard int // messages so far

	// Owned by mu.
	mu     sync.Mutex
	self   self
	in     map[string]bool   // channels that the bot is in, folded
	known  map[string]person // by id, who has spoken
	asking *question         // under way; nil: none
}

// person is where somebody was heard last.
type person struct {
	nick   string
	folded string
	at     time.Time
}

// question is something that the server was asked, until its PONG.
type question struct {
	token  string
	answer func(m *message) // gets what arrives before; within mu
	done   chan struct{}    // closed with the PONG
}

func newConnection(o Options, w *wire, l listener) *connection {
	c := &connection{
		options: o, wire: w, link: l, made: time.Now(), slot: make(chan struct{}, 1),
		in: map[string]bool{}, known: map[string]person{},
	}
	for _, entry := range o.Join {
		name, key, _ := strings.Cut(entry, " ")
		c.channels = append(c.channels, &membership{name: name, key: key})
	}
	return c
}

// welcome takes over what was agreed with the server.
func (c *connection) welcome(r *registration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.self = r.server, r.self
}

func (c *connection) fold(name string) string { return fold(name, c.server.mapping) }

// ahead is how many messages are read before they are taken.
const ahead = 1000

// Receive implements [chat.Platform]. IRC has no history: what was said since
// position is lost. It reads on while something is taken, because whoever takes may
// send, and the receipt of that is to be read.
func (c *connection) Receive(ctx context.Context, _ string, take chat.EventHandler) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		defer recovery.Log(c.link.Log(), "the end of a connection")
		_ = c.wire.conn.SetReadDeadline(time.Unix(1, 0)) // a connection without one is closed, which ends the reading too
	})
	defer stop()
	c.link.Received() // it was let in
	events := make(chan *chat.Event, ahead)
	var reading sync.WaitGroup
	var failed error
	reading.Go(func() {
		defer recovery.Log(c.link.Log(), "a reader of IRC")
		defer close(events)
		if failed = c.read(ctx, events); ctx.Err() == nil {
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

// read hands on what is said until the connection fails or ctx ends.
func (c *connection) read(ctx context.Context, events chan<- *chat.Event) (err error) {
	defer recovery.Error(c.link.Log(), "a reader of IRC", &err)
	for {
		m, err := c.wire.read()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("the connection is lost: %w", err)
		}
		c.link.Received()
		event, err := c.handle(m, time.Now())
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

// handle does what a message is for, and returns what somebody said in it, if
// anybody did.
func (c *connection) handle(m *message, now time.Time) (*chat.Event, error) {
	switch m.Command {
	case "PING":
		return nil, c.wire.write("PONG :" + m.trailing())
	case "ERROR":
		return nil, fmt.Errorf("the server closed the connection: %s", words(m))
	case "465":
		return nil, refused(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own := m.from.Name != "" && c.fold(m.from.Name) == c.fold(c.self.nick)
	if own && m.from.User != "" && m.from.Host != "" {
		c.self.user, c.self.host = m.from.User, m.from.Host
	}
	if q := c.asking; q != nil {
		if m.Command == "PONG" && m.trailing() == q.token {
			c.asking = nil
			close(q.done)
			return nil, nil
		}
		q.answer(m)
	}
	switch m.Command {
	case "NICK":
		c.renamed(m, own)
	case "396": // the host that others see from now on
		c.self.host = m.param(1)[strings.IndexByte(m.param(1), '@')+1:]
	case "JOIN", "PART", "KICK":
		return nil, c.moved(m, own, now)
	case "QUIT":
		c.forget(m.from.Name)
	case "PRIVMSG":
		if own {
			return nil, nil // its echo
		}
		return c.said(m, now), nil
	default:
		if joinRefusal(m.Command) {
			c.notLetIn(m, now)
		}
	}
	return nil, nil
}

// renamed follows a change of a nick; within mu.
func (c *connection) renamed(m *message, own bool) {
	if own {
		c.self.nick = m.param(0)
		c.link.Log().Info("the bot has another nick", "nick", c.self.nick)
		return
	}
	before := c.fold(m.from.Name)
	for id, p := range c.known {
		if p.folded != before {
			continue
		}
		if strings.Contains(id, "!") {
			delete(c.known, id) // the nick is part of who it is
		} else {
			p.nick, p.folded = m.param(0), c.fold(m.param(0))
			c.known[id] = p
		}
	}
}

// moved follows who comes and goes; within mu.
func (c *connection) moved(m *message, own bool, now time.Time) error {
	switch {
	case m.Command == "JOIN" && own:
		return c.came(m.param(0), now)
	case m.Command == "PART" && own, m.Command == "KICK" && c.fold(m.param(1)) == c.fold(c.self.nick):
		c.left(m.param(0), words(m), now)
	case m.Command == "JOIN":
		c.forget(m.from.Name) // the nick may be another person's now
	}
	return nil
}

// heardOf remembers where somebody is; within mu. Who had the nick before has it no
// more.
func (c *connection) heardOf(id, nick string, now time.Time) {
	const most = 1000
	c.forget(nick)
	if len(c.known) >= most {
		oldest, first := "", now
		for id, p := range c.known {
			if !p.at.After(first) {
				oldest, first = id, p.at
			}
		}
		delete(c.known, oldest)
	}
	c.known[id] = person{nick: nick, folded: c.fold(nick), at: now}
}

// forget that a nick is somebody; within mu.
func (c *connection) forget(nick string) {
	folded := c.fold(nick)
	for id, p := range c.known {
		if p.folded == folded {
			delete(c.known, id)
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
		if err := c.join(time.Now()); err != nil {
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
	c.wire.leave()
	return c.wire.close()
}

func permanent(format string, args ...any) error {
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf(format, args...)}
}

func outage(after time.Duration, format string, args ...any) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after, Err: fmt.Errorf(format, args...)}
}

var _ chat.Platform = (*connection)(nil)
var _ listener = (*channel.Host)(nil)
