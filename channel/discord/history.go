package discord

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

const pageSize = 100 // messages in a page of a history

// onServer handles a server that became available. It reads what was sent there while the bot
// was disconnected, unless the bot has just joined the server.
func (c *connection) onServer(s *server) {
	if s.Unavailable {
		return // Discord sends another event when the server is available
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

// onServerGone handles a server that became unavailable or that removed the bot. An unavailable
// server returns, and its messages since then are read.
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

// backfillPrivate marks the histories of the known private channels as unread, so that they are read.
func (c *connection) backfillPrivate() {
	for _, id := range c.cursor.private {
		c.addGap(room{ID: id, Type: roomPrivate}, "", c.cursor.since)
	}
}

// Find implements [chat.Platform]. Messages in a history may come without their nonces, so a
// message that is not found may still have been sent.
func (c *connection) Find(
	ctx context.Context, to chat.Room, key string, _ chat.Message,
) (id string, found bool, err error) {
	nonce := nonceOf(key)
	if id := c.shared.sentMessage(nonce); id != "" {
		return id, true, nil
	}
	var page []message
	err = c.verifyToken(ctx,
		c.client.call(ctx, request{op: "find message", path: "/channels/" + channelOf(to) + "/messages?limit=" +
			strconv.Itoa(pageSize), result: &page}))
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && e.Status != http.StatusTooManyRequests &&
		e.Status != http.StatusUnauthorized {
		return "", false, chat.ErrNoHistory
	}
	if err != nil {
		return "", false, httpcall.UnavailableForSend(err)
	}
	for _, m := range page {
		if m.Author != nil && m.Author.ID == c.bot.ID && m.nonce() == nonce {
			return m.ID, true, nil
		}
	}
	return "", false, chat.ErrNoHistory
}
