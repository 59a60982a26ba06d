package discord

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"mailroom/channel/chat"
)

const pageSize = 100 // messages that the platform hands out at once

// server takes a server that is there now: what it has. What was said in it while the
// connection did not receive is read, unless the bot has only just come there.
func (c *connection) server(s *server) {
	if s.Unavailable {
		return // it comes again
	}
	c.memory.has(s.ID, "")
	for _, r := range s.Roles {
		c.learnRole(s.ID, r)
	}
	c.learnThreads(s.Threads...)
	if !c.session.awaited[s.ID] {
		return
	}
	for _, r := range append(slices.Clone(s.Channels), s.Threads...) {
		if r.Type != roomForum && r.Type != roomMedia && snowflake(r.Last) > c.at.since {
			c.leave(r, s.ID, c.at.since)
		}
	}
	delete(c.session.awaited, s.ID)
}

// away takes a server that has gone. One that has an outage comes back, with what was
// said after it was lost here.
func (c *connection) away(s *server) {
	if !s.Unavailable {
		delete(c.session.awaited, s.ID)
		maps.DeleteFunc(c.session.behind, func(_ string, g gap) bool { return g.server == s.ID })
		return
	}
	if !c.lags() {
		c.at.hold()
	}
	c.session.awaited[s.ID] = true
}

// catchUpPrivate has what was said in the private channels that are known be read.
func (c *connection) catchUpPrivate() {
	for _, id := range c.at.private {
		c.leave(room{ID: id, Type: roomPrivate}, "", c.at.since)
	}
}

// Find implements [chat.Platform]. What the platform hands out again need not have its
// nonce, so one that is not found may have been sent.
func (c *connection) Find(ctx context.Context, to chat.Room, key string, _ chat.Message) (id string, found bool, err error) {
	nonce := nonceOf(key)
	if id := c.memory.message(nonce); id != "" {
		return id, true, nil
	}
	var page []message
	err = c.refusedToken(ctx, c.client.call(ctx, call{what: "look for a message", path: "/channels/" + channelOf(to) + "/messages?limit=" + strconv.Itoa(pageSize), out: &page}))
	if e, ok := errors.AsType[*refused](err); ok && e.status != http.StatusTooManyRequests && e.status != http.StatusUnauthorized {
		return "", false, chat.ErrNoHistory
	}
	if err != nil {
		return "", false, limited(err)
	}
	for _, m := range page {
		if m.Author != nil && m.Author.ID == c.bot.ID && m.nonce() == nonce {
			return m.ID, true, nil
		}
	}
	return "", false, chat.ErrNoHistory
}
