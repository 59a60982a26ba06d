package irc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel/chat"
)

const (
	// maxSlotWait bounds how long a send waits for another send to finish.
	maxSlotWait = 2 * time.Second
	// nickTTL is how long a known nick is trusted. Servers announce a nick change only in shared
	// channels, so an older nick is verified first.
	nickTTL = 15 * time.Second
	// minText is the least space for text in a line, however long the names are.
	minText = 64
)

// Send implements [chat.Platform]. It returns when the server has accepted the message. The id is
// the server's message id if it echoes messages.
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, _ string) (id string, err error) {
	leave, err := c.acquireSlot(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	target := to.Chat
	if c.isChannel(to.Chat) {
		err = c.checkJoined(to.Chat)
	} else {
		target, err = c.findNick(ctx, to.Chat)
	}
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	room := c.maxText(len(target))
	c.mu.Unlock()
	lines := splitLines(m.Text, room)
	if len(lines) == 0 {
		return "", permanent("empty message")
	}
	// Chunks fit into a line unless the bot's host has changed since. Such a chunk is sent in two
	// lines rather than truncated.
	for i, line := range lines {
		if id, err = c.sendLine(ctx, target, line); err != nil {
			if i > 0 && !errors.Is(err, mailroom.ErrUnknown) {
				err = errors.Join(err, mailroom.ErrUnknown)
			}
			return "", err
		}
	}
	return id, nil
}

// sendLine sends one line of text.
func (c *connection) sendLine(ctx context.Context, target, line string) (id string, err error) {
	var refusal error
	err = c.queryServer(ctx, "PRIVMSG "+target+" :"+line, func(m *message) {
		switch {
		case m.Command == "PRIVMSG" && c.fold(m.from.Name) == c.fold(c.self.nick) && c.fold(m.param(0)) == c.fold(target):
			id = m.tag("msgid")
		case refusal == nil:
			refusal = c.sendError(m, target)
		}
	})
	if refusal != nil {
		return "", refusal
	}
	return id, err
}

// acquireSlot waits up to maxSlotWait for the send slot. With one query at a time, the server has
// at most one unread line of the bot and sees no flood.
func (c *connection) acquireSlot(ctx context.Context) (leave func(), err error) {
	patience := time.NewTimer(maxSlotWait)
	defer patience.Stop()
	select {
	case c.sendSlot <- struct{}{}:
		return func() { <-c.sendSlot }, nil
	case <-patience.C:
		return nil, unavailable(maxSlotWait, "another send is still waiting for the server")
	case <-c.wire.closed:
		return nil, unavailable(0, "the connection to the IRC server was closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// queryServer sends a line and waits for the server's PONG. It passes every message before the PONG
// to answer, with mu held. If it fails after sending, the outcome is unknown.
func (c *connection) queryServer(ctx context.Context, line string, answer func(m *message)) error {
	q := &serverQuery{token: "q" + strconv.FormatInt(c.pings.Add(1), 10), onReply: answer, done: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-c.wire.closed:
		return unavailable(0, "the connection to the IRC server was closed")
	default:
	}
	c.mu.Lock()
	c.pending = q
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pending = nil
	}()
	if err := c.wire.write(line, "PING :"+q.token); err != nil {
		return unknownOutcome(fmt.Errorf("send: %w", err))
	}
	patience := time.NewTimer(c.options.Fresh)
	defer patience.Stop()
	select {
	case <-q.done:
		return nil
	case <-patience.C:
		return unknownOutcome(fmt.Errorf("no response from the server for %s", c.options.Fresh))
	case <-c.wire.closed:
		return unknownOutcome(errors.New("the connection to the IRC server was closed"))
	case <-ctx.Done():
		return unknownOutcome(ctx.Err())
	}
}

func unknownOutcome(err error) error {
	return fmt.Errorf("unknown whether the server accepted the message: %w (%w)", err, mailroom.ErrUnknown)
}

// checkJoined returns an error if the bot is not in a channel.
func (c *connection) checkJoined(channel string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.joined[c.fold(channel)] {
		return nil
	}
	for _, ch := range c.channels {
		if c.fold(ch.name) == c.fold(channel) {
			return unavailable(maxSlotWait, "the bot is not in %s now", channel)
		}
	}
	return fmt.Errorf("the bot is not in %s, which is not in join: %w", channel, chat.ErrGone)
}

// findNick returns the current nick of a user. A nick that may have a new owner is verified with
// the server, so that a message reaches no one else.
func (c *connection) findNick(ctx context.Context, id string) (nick string, err error) {
	c.mu.Lock()
	p, known := c.people[id]
	c.mu.Unlock()
	if known && time.Since(p.lastSeen) < nickTTL {
		return p.nick, nil
	}
	if !known {
		p.nick, _, _ = strings.Cut(id, "!") // the nick often equals the account
	}
	if strings.ContainsAny(p.nick, " ,\r\n\x00") || p.nick == "" {
		return "", permanent("%q is not an IRC user", id)
	}
	var there, same bool
	err = c.queryServer(ctx, "WHOIS "+p.nick, func(m *message) {
		if c.fold(m.param(1)) != c.fold(p.nick) {
			return
		}
		switch m.Command {
		case "311": // nick user host * :name
			there = true
			same = same || id == c.fold(m.param(1)+"!"+m.param(2)+"@"+m.param(3))
		case "330": // nick account :is logged in as
			same = same || id == c.fold(m.param(2))
		}
	})
	switch {
	case err != nil:
		return "", unavailable(0, "verify nick %s: %v", p.nick, err) // no message was sent
	case same && there:
		c.mu.Lock()
		c.recordPerson(id, p.nick, time.Now())
		c.mu.Unlock()
		return p.nick, nil
	case strings.Contains(id, "!"):
		return "", fmt.Errorf("%s is offline, or another user has the nick: %w", p.nick, chat.ErrGone)
	}
	return "", unavailable(time.Minute, "no known nick for account %s: %s is not logged in to it", id, p.nick)
}

// maxText returns how many bytes of text fit into a line to a target with a name of the given
// length. The server relays the line with the bot's full source, so that counts too. The caller
// holds mu.
func (c *connection) maxText(target int) int {
	nick := max(len(c.self.nick), len(c.options.Nick))
	at := len("!~") + len(userName(c.options.Nick)) + len("@") + 63 // 63 bytes is the longest host name
	if c.self.host != "" {
		at = len("!") + len(c.self.user) + len("@") + len(c.self.host)
	}
	return max(maxSentLine-len(":")-nick-at-len(" PRIVMSG ")-target-len(" :")-len("\r\n"), minText)
}

// sendError returns the error that a message of the server reports about a send to target, or nil.
func (c *connection) sendError(m *message, target string) error {
	if c.fold(m.param(1)) != c.fold(target) {
		return nil
	}
	switch m.Command {
	case "401", "403", "406": // no such nick, or channel
		return fmt.Errorf("%s does not exist or is offline: %w", target, chat.ErrGone)
	case "404", "477", "486", "489", "494", "531", "716", "717", "408", "415":
		return permanent("%s rejected the message (%s): %s", target, m.Command, reasonText(m))
	case "439", "707": // target changed too fast
		return unavailable(time.Minute, "the server limits how many people the bot may message: %s", reasonText(m))
	case "263": // try again later
		return unavailable(10*time.Second, "the server is busy: %s", reasonText(m))
	}
	return nil
}
