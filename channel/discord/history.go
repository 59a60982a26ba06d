package discord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"mailroom/channel/chat"
)

const (
	pageSize = 100 // messages that the platform hands out at once
	// longestPause is the most that the history is waited for when the platform asks
	// for patience. The connection goes on meanwhile.
	longestPause = time.Minute
)

// server takes a server that is there now: what it has, and what was said in it while
// nobody listened, unless the bot has only just come there.
func (c *connection) server(ctx context.Context, s *server, take chat.Take) error {
	if s.Unavailable {
		return nil // it comes again
	}
	c.memory.has(s.ID, "")
	for _, r := range s.Roles {
		c.learnRole(s.ID, r)
	}
	c.learnThreads(s.Threads...)
	if !c.session.awaited[s.ID] {
		return nil
	}
	for _, r := range append(slices.Clone(s.Channels), s.Threads...) {
		if r.Type == roomForum || r.Type == roomMedia || snowflake(r.Last) <= c.at.since {
			continue
		}
		if _, err := c.catchUp(ctx, r, s.ID, take); err != nil {
			return err
		}
	}
	delete(c.session.awaited, s.ID)
	return nil
}

// away takes a server that has gone. One that has an outage comes back, with what was
// said after it was lost here.
func (c *connection) away(s *server) {
	if !s.Unavailable {
		delete(c.session.awaited, s.ID)
		return
	}
	if len(c.session.awaited) == 0 {
		c.at.hold()
	}
	c.session.awaited[s.ID] = true
}

// catchUpPrivate takes what was said in the private channels that are known.
func (c *connection) catchUpPrivate(ctx context.Context, take chat.Take) error {
	for _, id := range slices.Clone(c.at.private) {
		there, err := c.catchUp(ctx, room{ID: id, Type: roomPrivate}, "", take)
		if err != nil {
			return err
		}
		if !there {
			c.at.left(id)
		}
	}
	return nil
}

// catchUp takes what is newer in a room than where the reading begins, in order. It
// reports whether the platform hands its history out.
func (c *connection) catchUp(ctx context.Context, r room, server string, take chat.Take) (there bool, err error) {
	for after, taken := c.at.since, 0; ; {
		page, err := c.history(ctx, r.ID, fmt.Sprintf("?limit=%d&after=%d", pageSize, after))
		if unreadable(err) {
			c.link.Log().Debug("a history is not handed out", "room", r.ID, "error", err)
			return false, nil
		}
		if err != nil {
			return true, err
		}
		slices.SortFunc(page, func(a, b message) int { return cmp.Compare(snowflake(a.ID), snowflake(b.ID)) })
		for _, m := range page {
			if snowflake(m.ID) <= after {
				continue
			}
			after = snowflake(m.ID)
			m.Server, m.RoomType = server, &r.Type
			if err := c.said(ctx, &m, take); err != nil {
				return true, err
			}
			taken++
		}
		if len(page) < pageSize {
			if taken > 0 {
				c.link.Log().Info("caught up with what was said meanwhile", "room", r.ID, "messages", taken)
			}
			return true, nil
		}
	}
}

// history asks for messages of a room, and waits if it has to.
func (c *connection) history(ctx context.Context, id, query string) (page []message, err error) {
	for {
		page = nil
		err = c.refusedToken(ctx, c.client.call(ctx, call{what: "ask for the history", path: "/channels/" + id + "/messages" + query, out: &page}))
		after, _ := asked(err)
		if after == 0 || after > longestPause {
			return page, historyTrouble(err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(after):
		}
	}
}

// historyTrouble leaves what the platform will not hand out as it is.
func historyTrouble(err error) error {
	if err == nil || unreadable(err) {
		return err
	}
	return outage(err)
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
