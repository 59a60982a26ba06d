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
	// moment is how long who sends waits for another to be done with the server.
	moment = 2 * time.Second
	// remembered is for how long a nick is taken for who spoke under it: a server says
	// only in a common channel that somebody else has it. After that it is asked.
	remembered = 15 * time.Second
	// leastRoom is for text in a line, whatever a server says.
	leastRoom = 64
)

// Send implements [chat.Platform]. It returns when the server has taken the message,
// whose id is the server's where it echoes what the bot says.
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, _ string) (id string, err error) {
	leave, err := c.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	target := to.Chat
	if c.isChannel(to.Chat) {
		err = c.inside(to.Chat)
	} else {
		target, err = c.find(ctx, to.Chat)
	}
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	room := c.room(len(target))
	c.mu.Unlock()
	lines := fit(m.Text, room)
	if len(lines) == 0 {
		return "", permanent("there is nothing to say in an empty line")
	}
	// Pieces fit. One that does not, because the bot's host has changed meanwhile,
	// goes out in two lines rather than lose its end.
	for i, line := range lines {
		if id, err = c.say(ctx, target, line); err != nil {
			if i > 0 && !errors.Is(err, mailroom.ErrUnknown) {
				err = errors.Join(err, mailroom.ErrUnknown)
			}
			return "", err
		}
	}
	return id, nil
}

// say sends one line.
func (c *connection) say(ctx context.Context, target, line string) (id string, err error) {
	var refusal error
	err = c.ask(ctx, "PRIVMSG "+target+" :"+line, func(m *message) {
		switch {
		case m.Command == "PRIVMSG" && c.fold(m.from.Name) == c.fold(c.self.nick) && c.fold(m.param(0)) == c.fold(target):
			id = m.tag("msgid")
		case refusal == nil:
			refusal = c.refusal(m, target)
		}
	})
	if refusal != nil {
		return "", refusal
	}
	return id, err
}

// enter waits a moment for its turn: one thing is asked at a time, so the server
// never has more than one line of ours to read, and no flood to complain of.
func (c *connection) enter(ctx context.Context) (leave func(), err error) {
	patience := time.NewTimer(moment)
	defer patience.Stop()
	select {
	case c.slot <- struct{}{}:
		return func() { <-c.slot }, nil
	case <-patience.C:
		return nil, outage(moment, "the server is slow to take what is sent to others")
	case <-c.wire.closed:
		return nil, outage(0, "the connection is closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask sends a line, hands what arrives until the server's PONG to answer, within mu,
// and returns then. Another end of it is unknown, unless nothing was sent.
func (c *connection) ask(ctx context.Context, line string, answer func(m *message)) error {
	q := &question{token: "q" + strconv.FormatInt(c.tokens.Add(1), 10), answer: answer, done: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-c.wire.closed:
		return outage(0, "the connection is closed")
	default:
	}
	c.mu.Lock()
	c.asking = q
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asking = nil
	}()
	if err := c.wire.write(line, "PING :"+q.token); err != nil {
		return unknown(fmt.Errorf("send: %w", err))
	}
	patience := time.NewTimer(c.options.Fresh)
	defer patience.Stop()
	select {
	case <-q.done:
		return nil
	case <-patience.C:
		return unknown(fmt.Errorf("the server did not answer for %s", c.options.Fresh))
	case <-c.wire.closed:
		return unknown(errors.New("the connection ended"))
	case <-ctx.Done():
		return unknown(ctx.Err())
	}
}

func unknown(err error) error {
	return fmt.Errorf("nobody knows whether the server took it: %w (%w)", err, mailroom.ErrUnknown)
}

// inside says why nothing can be said in a channel now, nil if it can.
func (c *connection) inside(channel string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in[c.fold(channel)] {
		return nil
	}
	for _, ch := range c.channels {
		if c.fold(ch.name) == c.fold(channel) {
			return outage(moment, "the bot is not in %s now", channel)
		}
	}
	return fmt.Errorf("the bot is not in %s, and join does not name it: %w", channel, chat.ErrGone)
}

// find is the nick under which somebody is there now. A nick can be another's since
// it was heard, who must not get what is not for them: then the server is asked.
func (c *connection) find(ctx context.Context, id string) (nick string, err error) {
	c.mu.Lock()
	p, known := c.known[id]
	c.mu.Unlock()
	if known && time.Since(p.at) < remembered {
		return p.nick, nil
	}
	if !known {
		p.nick, _, _ = strings.Cut(id, "!") // an account is often the nick as well
	}
	if strings.ContainsAny(p.nick, " ,\r\n\x00") || p.nick == "" {
		return "", permanent("%q is nobody on IRC", id)
	}
	var there, same bool
	err = c.ask(ctx, "WHOIS "+p.nick, func(m *message) {
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
		return "", outage(0, "ask who %s is: %v", p.nick, err) // nothing was sent to anybody
	case same && there:
		c.mu.Lock()
		c.heardOf(id, p.nick, time.Now())
		c.mu.Unlock()
		return p.nick, nil
	case strings.Contains(id, "!"):
		return "", fmt.Errorf("%s is not there, or is somebody else now: %w", p.nick, chat.ErrGone)
	}
	return "", outage(time.Minute, "the account %s was not heard since the bot has connected, and %s is not it", id, p.nick)
}

// room is how many bytes of text fit into a line to a target whose name has that many:
// the server passes it on with the bot's name before it, as others see it. Within mu.
func (c *connection) room(target int) int {
	nick := max(len(c.self.nick), len(c.options.Nick))
	at := len("!~") + len(userOf(c.options.Nick)) + len("@") + 63 // the longest host there is
	if c.self.host != "" {
		at = len("!") + len(c.self.user) + len("@") + len(c.self.host)
	}
	return max(sentLine-len(":")-nick-at-len(" PRIVMSG ")-target-len(" :")-len("\r\n"), leastRoom)
}

// refusal is what an error of the server means for what was sent to a target, nil if
// it is none.
func (c *connection) refusal(m *message, target string) error {
	if c.fold(m.param(1)) != c.fold(target) {
		return nil
	}
	switch m.Command {
	case "401", "403", "406": // no such nick, or channel
		return fmt.Errorf("%s is not there: %w", target, chat.ErrGone)
	case "404", "477", "486", "489", "494", "531", "716", "717", "408", "415":
		return permanent("%s does not take what the bot says (%s): %s", target, m.Command, words(m))
	case "439", "707": // too many people spoken to
		return outage(time.Minute, "the server lets the bot speak to fewer people at a time: %s", words(m))
	case "263": // try again
		return outage(10*time.Second, "the server is busy: %s", words(m))
	}
	return nil
}
