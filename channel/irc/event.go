package irc

import (
	"strconv"
	"strings"
	"time"

	"mailroom/channel/chat"
	"mailroom/internal/digest"
)

// messageEvent converts a PRIVMSG into an event, or nil if it is not for the bot. The caller holds
// mu.
func (c *connection) messageEvent(m *message, now time.Time) *chat.Event {
	target, raw := m.param(0), m.trailing()
	if len(m.Params) < 2 || m.from.User == "" || isCTCP(raw) {
		return nil // sent by a server, or a CTCP request
	}
	if c.playback.isRepeated(m, c.connectedAt) {
		c.host.Log().Debug("message skipped: it was played back", "target", target, "time", m.tag("time"))
		return nil
	}
	c.received++
	text := plainText(raw)
	e := &chat.Event{
		Kind: chat.EventMessage, Key: c.messageKey(m, now), User: c.messageUser(m), Text: text,
		Position: c.playback.position(messageTime(m, now), c.connectedAt),
	}
	if c.server.hasCap("server-time") {
		e.Written, _ = taggedTime(m)
	}
	c.recordPerson(e.User.ID, m.from.Name, now)
	switch {
	case c.fold(target) == c.fold(c.self.nick):
		e.Room, e.Addressed = chat.Room{Chat: e.User.ID}, true
	case c.isChannel(target):
		e.Room = chat.Room{Chat: c.fold(target), Group: true}
		if words, ok := stripAddress(text, c.self.nick, c.server.caseMapping); ok {
			e.Text, e.Addressed = words, true
		}
	default:
		return nil // the message is to a status group of a channel, or to every user of a server
	}
	if e.Text == "" {
		return nil
	}
	return e
}

// isChannel reports whether name is a channel's name.
func (c *connection) isChannel(name string) bool {
	return name != "" && strings.IndexByte(c.server.channelPrefixes, name[0]) >= 0
}

// messageUser returns the author of a message: the account if the server vouches for it, otherwise
// nick!user@host, which is only as reliable as the network makes it.
func (c *connection) messageUser(m *message) chat.User {
	u := chat.User{ID: c.fold(m.from.Name + "!" + m.from.User + "@" + m.from.Host), Name: plainText(m.from.Name)}
	if account := m.tag("account"); c.server.hasCap("account-tag") && account != "" &&
		!strings.ContainsAny(account, "!@*") {
		u.ID = c.fold(account)
	}
	u.ID = strings.ToValidUTF8(u.ID, "?")
	return u
}

// messageKey returns the key of a message: the server's message id, or its time with its author and text. Without
// both it is a hash of the connection and the message's number on it, which recognizes no repeated message:
// servers repeat none, and bouncers without time tags must be configured not to.
func (c *connection) messageKey(m *message, now time.Time) string {
	const most = 200
	if id := m.tag("msgid"); id != "" && c.server.hasCap("message-tags") {
		if key := "msgid:" + strings.ToValidUTF8(id, "?"); len(key) <= most {
			return key
		}
		return digest.ID("irc", "msgid", id)
	}
	if t, ok := taggedTime(m); ok {
		return c.playback.taggedKey(m, t, c.fold(m.from.Canonical()), c.fold(m.param(0)))
	}
	return digest.ID("irc", c.connectedAt.Format(time.RFC3339Nano), strconv.Itoa(c.received),
		now.Format(time.RFC3339Nano), m.from.Canonical(), m.param(0), m.trailing())
}

// messageTime returns the server's time of a message, or now.
func messageTime(m *message, now time.Time) time.Time {
	if t, ok := taggedTime(m); ok {
		return t
	}
	return now
}
