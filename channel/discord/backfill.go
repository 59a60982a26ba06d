package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/recovery"
)

const (
	maxReaders = 4 // histories read concurrently
	// maxDeferred and maxDeferredBytes bound the deferred events of all rooms together.
	maxDeferred      = 1000
	maxDeferredBytes = 8 << 20
	// firstRetry and lastRetry are the shortest and the longest pause after a failed read.
	firstRetry = 200 * time.Millisecond
	lastRetry  = time.Minute
)

// gap is a room with an unread history, which comes before the room's events. A failing or slow
// history delays the events of its own room only: they are deferred, in order. While there is a
// gap, the saved position stays before it.
type gap struct {
	room     room
	server   string
	after    uint64 // id of the last message handled from the history
	deferred []deferredEvent
	attempts int       // failed in a row
	due      time.Time // time of the next attempt
}

// deferredEvent is an event that waits for a history.
type deferredEvent struct {
	frame *frame
	id    string // id of a new message, "" for any other event
}

// backfill reads histories concurrently. The loop of Receive owns its fields.
type backfill struct {
	results     chan historyPage
	reading     map[string]bool // rooms being read
	reread      map[string]bool // rooms being read that missed messages since: read once more
	pausedUntil time.Time       // time before which no history is requested
	overflowed  bool            // an event was dropped, and that was logged
	wg          sync.WaitGroup
}

// historyPage is the result of reading a page of a room's history.
type historyPage struct {
	room      string
	messages  []message // oldest first
	complete  bool      // this page is the last one
	gone      bool      // the thread does not exist, or the bot cannot see it
	forbidden bool      // the bot may not read the history
	err       error
}

func newBackfill() backfill {
	return backfill{results: make(chan historyPage), reading: map[string]bool{}, reread: map[string]bool{}}
}

// hasGaps reports whether some room has messages that were not received. The saved position
// then stays.
func (c *connection) hasGaps() bool { return len(c.session.awaitedServers)+len(c.session.gaps) > 0 }

// addGap marks the history of a room as unread after the message id after, so that it is read. An existing gap of the
// room is kept.
func (c *connection) addGap(r room, server string, after uint64) {
	if _, known := c.session.gaps[r.ID]; known {
		if c.backfill.reading[r.ID] {
			c.backfill.reread[r.ID] = true
		}
		return
	}
	if !c.hasGaps() {
		c.cursor.hold()
	}
	c.session.gaps[r.ID] = gap{room: r, server: server, after: after}
}

// deferEvent defers an event if the history of its room comes first, and reports whether it
// did. The bot's own messages are never deferred. A thread whose channel is unknown gets a gap:
// its channel is looked up concurrently too.
func (c *connection) deferEvent(f *frame) bool {
	switch f.Type {
	case "MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
	default:
		return false
	}
	var m message
	if json.Unmarshal(f.Data, &m) != nil || m.Author != nil && m.Author.ID == c.bot.ID {
		return false
	}
	h := deferredEvent{frame: f}
	if f.Type == "MESSAGE_CREATE" {
		h.id = m.ID
	}
	if _, known := c.session.gaps[m.Channel]; !known {
		if !m.isFromPerson() || m.RoomType == nil || c.shared.parent(m.Channel) != "" {
			return false
		}
		r, after := room{ID: m.Channel, Type: *m.RoomType}, c.cursor.newest
		if !r.thread() {
			return false
		}
		if h.id != "" {
			after = snowflake(m.ID) - 1
		}
		c.addGap(r, m.Server, after)
	}
	if c.canDefer(f) {
		g := c.session.gaps[m.Channel]
		g.deferred = append(g.deferred, h)
		c.session.gaps[m.Channel] = g
	}
	return true
}

// canDefer reports whether one more event may be deferred. A dropped event is recovered from
// the history, which contains the message in its latest form, because the position stays before
// it.
func (c *connection) canDefer(f *frame) bool {
	events, bytes := 1, len(f.Data)
	for _, g := range c.session.gaps {
		events += len(g.deferred)
		for _, h := range g.deferred {
			bytes += len(h.frame.Data)
		}
	}
	if events <= maxDeferred && bytes <= maxDeferredBytes {
		return true
	}
	if !c.backfill.overflowed {
		c.backfill.overflowed = true
		c.host.Log().Warn("deferred events dropped: too many wait for room histories, which will include them",
			"events", events-1)
	}
	return false
}

// startBackfill starts reading the histories that are due. It returns a channel that fires when
// the next one is due, or nil if there is none or all readers are busy.
func (c *connection) startBackfill(ctx context.Context) <-chan time.Time {
	if len(c.session.gaps) == 0 {
		return nil
	}
	now := time.Now()
	var due []gap
	for id, g := range c.session.gaps {
		if !c.backfill.reading[id] {
			if g.due.Before(c.backfill.pausedUntil) {
				g.due = c.backfill.pausedUntil
			}
			due = append(due, g)
		}
	}
	slices.SortFunc(due, func(a, b gap) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.room.ID, b.room.ID)) })
	for _, g := range due {
		if len(c.backfill.reading) >= maxReaders {
			return nil
		}
		if wait := g.due.Sub(now); wait > 0 {
			return time.After(wait)
		}
		c.backfill.reading[g.room.ID] = true
		c.backfill.wg.Go(func() {
			defer recovery.Handle(c.host.Log(), "a history reader of a Discord channel", func(p *recovery.Panic) { c.cancel(p) })
			p := c.fetchPage(ctx, g)
			select {
			case c.backfill.results <- p:
			case <-ctx.Done():
			}
		})
	}
	return nil
}

// fetchPage requests the next page of a history. For a thread with an unknown channel it
// requests the channel first.
func (c *connection) fetchPage(ctx context.Context, g gap) historyPage {
	p := historyPage{room: g.room.ID}
	if g.room.thread() && c.shared.parent(g.room.ID) == "" {
		r := g.room
		err := c.verifyToken(ctx, c.client.call(ctx, request{op: "get thread", path: "/channels/" + r.ID, result: &r}))
		if p.gone, p.err = isForbidden(err), err; err != nil {
			return p
		}
		c.recordThreads(r)
	}
	err := c.verifyToken(ctx, c.client.call(ctx, request{
		op: "read history", path: fmt.Sprintf("/channels/%s/messages?limit=%d&after=%d", g.room.ID, pageSize, g.after),
		result: &p.messages,
	}))
	if p.forbidden, p.err = isForbidden(err), err; err != nil {
		return p
	}
	p.complete = len(p.messages) < pageSize
	slices.SortFunc(p.messages, func(a, b message) int { return cmp.Compare(snowflake(a.ID), snowflake(b.ID)) })
	p.messages = slices.DeleteFunc(p.messages, func(m message) bool { return snowflake(m.ID) <= g.after })
	return p
}

// onHistoryPage handles a page of a history. After the last page it handles the deferred
// events.
func (c *connection) onHistoryPage(ctx context.Context, p historyPage, handle chat.EventHandler) error {
	g, reread := c.session.gaps[p.room], c.backfill.reread[p.room]
	delete(c.backfill.reading, p.room)
	delete(c.backfill.reread, p.room)
	switch {
	case g.room.ID == "":
		return nil // the bot was removed from the server
	case p.gone:
		c.host.Log().Warn("messages lost: their thread does not exist or is hidden from the bot", "room", p.room,
			"events", len(g.deferred), "error", p.err)
		g.deferred = nil
	case p.forbidden:
		c.host.Log().Debug("room history not readable", "room", p.room, "error", p.err)
		if g.room.Type == roomPrivate {
			c.cursor.removePrivate(p.room)
		}
	case p.err != nil:
		c.retryGap(g, p.err)
		return nil
	}
	for i := range p.messages {
		m := &p.messages[i]
		m.Server, m.RoomType = g.server, &g.room.Type
		if err := c.onMessage(ctx, m, handle); err != nil {
			return err
		}
		g.after = snowflake(m.ID)
		g.deferred = removeEvent(g.deferred, m.ID)
	}
	g.attempts, g.due = 0, time.Time{}
	c.session.gaps[p.room] = g
	if !p.gone && !p.forbidden && (!p.complete || reread) {
		return nil
	}
	for _, h := range g.deferred {
		if err := c.handleEvent(ctx, h.frame, handle); err != nil {
			return err
		}
	}
	delete(c.session.gaps, p.room)
	c.backfill.overflowed = false
	return nil
}

// retryGap schedules another read of a history. Only the first of several failures in a row is
// reported.
func (c *connection) retryGap(g gap, err error) {
	g.attempts++
	wait := firstRetry << min(g.attempts-1, 16)
	after, global := httpcall.PauseOf(err)
	g.due = time.Now().Add(max(min(wait, lastRetry), after))
	if global {
		c.backfill.pausedUntil = g.due
	}
	c.session.gaps[g.room.ID] = g
	if g.attempts == 1 {
		c.host.ReportError(fmt.Errorf("history of %s is read later, its events wait: %w", g.room.ID, err))
		return
	}
	c.host.Log().Debug("room history failed; retrying later", "room", g.room.ID, "attempts", g.attempts, "error", err)
}

// removeEvent returns the queue without a message that the history contained. It copies the
// queue, because a saved session may share it.
func removeEvent(queue []deferredEvent, id string) (rest []deferredEvent) {
	for _, h := range queue {
		if h.id != id {
			rest = append(rest, h)
		}
	}
	return rest
}
