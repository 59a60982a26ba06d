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
	// maxSlotWait is how long who sends waits for another to be done with the server.
	maxSlotWait = 2 * time.Second
	// nickTTL is for how long a nick is taken for who spoke under it: a server says
	// only in a common channel that somebody else has it. After that it is asked.
	nickTTL = 15 * time.Second
	// minText is for text in a line, whatever a server says.
	minText = 64
)

// Send implements [chat.Platform]. It returns when the server has taken the message,
// whose id is the server's where it echoes what the bot says.
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
		return "", permanent("there is nothing to say in an empty line")
	}
	// Pieces fit. One that does not, because the bot's host has changed meanwhile,
	// goes out in two lines rather than lose its end.
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

// sendLine sends one line.
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

// acquireSlot waits a moment for its turn: one thing is asked at a time, so the server
// never has more than one line of ours to read, and no flood to complain of.
func (c *connection) acquireSlot(ctx context.Context) (leave func(), err error) {
	patience := time.NewTimer(maxSlotWait)
	defer patience.Stop()
	select {
	case c.sendSlot <- struct{}{}:
		return func() { <-c.sendSlot }, nil
	case <-patience.C:
		return nil, unavailable(maxSlotWait, "the server is slow to take what is sent to others")
	case <-c.wire.closed:
		return nil, unavailable(0, "the connection is closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// queryServer sends a line, hands what arrives until the server's PONG to answer, within mu,
// and returns then. Another end of it is unknown, unless nothing was sent.
func (c *connection) queryServer(ctx context.Context, line string, answer func(m *message)) error {
	q := &serverQuery{token: "q" + strconv.FormatInt(c.pings.Add(1), 10), onReply: answer, done: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-c.wire.closed:
		return unavailable(0, "the connection is closed")
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
		return unknownOutcome(fmt.Errorf("the server did not answer for %s", c.options.Fresh))
	case <-c.wire.closed:
		return unknownOutcome(errors.New("the connection ended"))
	case <-ctx.Done():
		return unknownOutcome(ctx.Err())
	}
}

func unknownOutcome(err error) error {
	return fmt.Errorf("nobody knows whether the server took it: %w (%w)", err, mailroom.ErrUnknown)
}

// checkJoined says why nothing can be said in a channel now, nil if it can.
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
	return fmt.Errorf("the bot is not in %s, and join does not name it: %w", channel, chat.ErrGone)
}

// findNick is the nick under which somebody is there now. A nick can be another's since
// it was heard, who must not get what is not for them: then the server is asked.
func (c *connection) findNick(ctx context.Context, id string) (nick string, err error) {
	c.mu.Lock()
	p, known := c.people[id]
	c.mu.Unlock()
	if known && time.Since(p.lastSeen) < nickTTL {
		return p.nick, nil
	}
	if !known {
		p.nick, _, _ = strings.Cut(id, "!") // an account is often the nick as well
	}
	if strings.ContainsAny(p.nick, " ,\r\n\x00") || p.nick == "" {
		return "", permanent("%q is nobody on IRC", id)
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
		return "", unavailable(0, "ask who %s is: %v", p.nick, err) // nothing was sent to anybody
	case same && there:
		c.mu.Lock()
		c.recordPerson(id, p.nick, time.Now())
		c.mu.Unlock()
		return p.nick, nil
	case strings.Contains(id, "!"):
		return "", fmt.Errorf("%s is not there, or is somebody else now: %w", p.nick, chat.ErrGone)
	}
	return "", unavailable(time.Minute, "the account %s was not heard since the bot has connected, and %s is not it", id, p.nick)
}

// maxText is how many bytes of text fit into a line to a target whose name has that many:
// the server passes it on with the bot's name before it, as others see it. Within mu.
func (c *connection) maxText(target int) int {
	nick := max(len(c.self.nick), len(c.options.Nick))
	at := len("!~") + len(userName(c.options.Nick)) + len("@") + 63 // the longest host there is
	if c.self.host != "" {
		at = len("!") + len(c.self.user) + len("@") + len(c.self.host)
	}
	return max(maxSentLine-len(":")-nick-at-len(" PRIVMSG ")-target-len(" :")-len("\r\n"), minText)
}

// sendError is what an error of the server means for what was sent to a target, nil if
// it is none.
func (c *connection) sendError(m *message, target string) error {
	if c.fold(m.param(1)) != c.fold(target) {
		return nil
	}
	switch m.Command {
	case "401", "403", "406": // no such nick, or channel
		return fmt.Errorf("%s is not there: %w", target, chat.ErrGone)
	case "404", "477", "486", "489", "494", "531", "716", "717", "408", "415":
		return permanent("%s does not take what the bot says (%s): %s", target, m.Command, reasonText(m))
	case "439", "707": // too many people spoken to
		return unavailable(time.Minute, "the server lets the bot speak to fewer people at a time: %s", reasonText(m))
	case "263": // try again
		return unavailable(10*time.Second, "the server is busy: %s", reasonText(m))
	}
	return nil
}
