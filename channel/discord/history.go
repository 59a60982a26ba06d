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

// onServer takes a server that is there now: what it has. What was said in it while the
// connection did not receive is read, unless the bot has only just come there.
func (c *connection) onServer(s *server) {
	if s.Unavailable {
		return // it comes again
	}
	c.shared.setRole(s.ID, "")
	for _, r := range s.Roles {
		c.recordRole(s.ID, r)
	}
	c.recordThreads(s.Threads...)
	if !c.session.awaitedServers[s.ID] {
		return
	}
	for _, r := range append(slices.Clone(s.Channels), s.Threads...) {
		if r.Type != roomForum && r.Type != roomMedia && snowflake(r.Last) > c.cursor.since {
			c.addGap(r, s.ID, c.cursor.since)
		}
	}
	delete(c.session.awaitedServers, s.ID)
}

// onServerGone takes a server that has gone. One that has an outage comes back, with what was
// said after it was lost here.
func (c *connection) onServerGone(s *server) {
	if !s.Unavailable {
		delete(c.session.awaitedServers, s.ID)
		maps.DeleteFunc(c.session.gaps, func(_ string, g gap) bool { return g.server == s.ID })
		return
	}
	if !c.hasGaps() {
		c.cursor.hold()
	}
	c.session.awaitedServers[s.ID] = true
}

// backfillPrivate has what was said in the private channels that are known be read.
func (c *connection) backfillPrivate() {
	for _, id := range c.cursor.private {
		c.addGap(room{ID: id, Type: roomPrivate}, "", c.cursor.since)
	}
}

// Find implements [chat.Platform]. What the platform hands out again need not have its
// nonce, so one that is not found may have been sent.
func (c *connection) Find(ctx context.Context, to chat.Room, key string, _ chat.Message) (id string, found bool, err error) {
	nonce := nonceOf(key)
	if id := c.shared.sentMessage(nonce); id != "" {
		return id, true, nil
	}
	var page []message
	err = c.verifyToken(ctx, c.client.call(ctx, request{op: "look for a message", path: "/channels/" + channelOf(to) + "/messages?limit=" + strconv.Itoa(pageSize), result: &page}))
	if e, ok := errors.AsType[*apiError](err); ok && e.status != http.StatusTooManyRequests && e.status != http.StatusUnauthorized {
		return "", false, chat.ErrNoHistory
	}
	if err != nil {
		return "", false, unavailableWithScope(err)
	}
	for _, m := range page {
		if m.Author != nil && m.Author.ID == c.bot.ID && m.nonce() == nonce {
			return m.ID, true, nil
		}
	}
	return "", false, chat.ErrNoHistory
}
