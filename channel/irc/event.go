package irc

import (
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel/chat"
)

// messageEvent makes an event of a PRIVMSG, nil if it is none for us; within mu.
func (c *connection) messageEvent(m *message, now time.Time) *chat.Event {
	target, raw := m.param(0), m.trailing()
	if len(m.Params) < 2 || m.from.User == "" || isCTCP(raw) {
		return nil // a server's, or a program's
	}
	c.received++
	text := plainText(raw)
	e := &chat.Event{
		Kind: chat.EventMessage, Key: c.messageKey(m, now), User: c.messageUser(m), Text: text,
		Position: messageTime(m, now).UTC().Format(time.RFC3339Nano),
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
		return nil // to a part of a channel, or to everybody on a server
	}
	if e.Text == "" {
		return nil
	}
	return e
}

// isChannel reports whether a name is a channel's.
func (c *connection) isChannel(name string) bool {
	return name != "" && strings.IndexByte(c.server.channelPrefixes, name[0]) >= 0
}

// messageUser is who spoke: the account where the server says it, which is theirs alone.
// Else nick!user@host, which is as good as the network makes it.
func (c *connection) messageUser(m *message) chat.User {
	u := chat.User{ID: c.fold(m.from.Name + "!" + m.from.User + "@" + m.from.Host), Name: plainText(m.from.Name)}
	if account := m.tag("account"); c.server.hasCap("account-tag") && account != "" && !strings.ContainsAny(account, "!@*") {
		u.ID = c.fold(account)
	}
	u.ID = strings.ToValidUTF8(u.ID, "?")
	return u
}

// messageKey is of a message. Where the server gives none it is made of when and as the
// how-manieth it arrived over this connection: then a message that came twice would
// be two, but no server sends one twice by itself.
func (c *connection) messageKey(m *message, now time.Time) string {
	const most = 200
	if id := m.tag("msgid"); id != "" && c.server.hasCap("message-tags") {
		if key := "msgid:" + strings.ToValidUTF8(id, "?"); len(key) <= most {
			return key
		}
		return mailroom.DeriveID("irc", "msgid", id)
	}
	return mailroom.DeriveID("irc", c.connectedAt.Format(time.RFC3339Nano), strconv.Itoa(c.received),
		now.Format(time.RFC3339Nano), m.from.Canonical(), m.param(0), m.trailing())
}

// messageTime is when something was said.
func messageTime(m *message, now time.Time) time.Time {
	if t, err := time.Parse(time.RFC3339Nano, m.tag("time")); err == nil {
		return t
	}
	return now
}
