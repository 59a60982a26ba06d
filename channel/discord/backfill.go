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
	"mailroom/internal/recovery"
)

const (
	maxReaders = 4 // histories that are read at once
	// maxDeferred and maxHeldBytes bound the events that wait for histories, in all rooms
	// together.
	maxDeferred      = 1000
	maxDeferredBytes = 8 << 20
	// firstRetry and lastRetry are the pauses after a history that could not be read.
	firstRetry = 200 * time.Millisecond
	lastRetry  = time.Minute
)

// gap is a room whose history is read before its next event is taken. A history that
// fails or is slow delays the events of its room alone: they wait here, in their order.
// While there is a gap, the saved position stays before it.
type gap struct {
	room     room
	server   string
	after    uint64 // id of the last message that was taken from the history
	deferred []deferredEvent
	attempts int       // that failed in a row
	due      time.Time // of the next one
}

// deferredEvent is an event that waits for a history.
type deferredEvent struct {
	frame *frame
	id    string // of a message that is new, "" for any other event
}

// backfill reads the histories beside the loop of Receive, which owns all of it.
type backfill struct {
	results     chan historyPage
	reading     map[string]bool // rooms whose history is being read
	reread      map[string]bool // of those being read: read once more, because messages were missed
	pausedUntil time.Time       // no history is read before
	overflowed  bool            // maxHeld was reached, and logged
	wg          sync.WaitGroup
}

// historyPage is what a reader brings of the history of a room.
type historyPage struct {
	room      string
	messages  []message // in order
	complete  bool      // there is no more
	gone      bool      // the thread does not exist, or not for the bot
	forbidden bool      // the history is not handed out
	err       error
}

func newBackfill() backfill {
	return backfill{results: make(chan historyPage), reading: map[string]bool{}, reread: map[string]bool{}}
}

// hasGaps reports whether messages of some room were not received yet: the position stays.
func (c *connection) hasGaps() bool { return len(c.session.awaitedServers)+len(c.session.gaps) > 0 }

// addGap has the history of a room be read from after on. A gap that is there keeps its
// place.
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

// deferEvent has an event of a room wait if the history of that room goes first. The bot's own
// messages never wait. A thread whose channel is unknown gets a gap: what its channel is,
// is asked beside the loop too.
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
	if _, behind := c.session.gaps[m.Channel]; !behind {
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

// canDefer reports whether one more event can wait. One that cannot is left to the history:
// it has each message as it is then, and the position is before it.
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
		c.host.Log().Warn("too many events wait for histories: the histories alone tell the others", "events", events-1)
	}
	return false
}

// startBackfill starts reading the histories that are due. It returns when the next one is; nil
// if a reader or nothing is waited for.
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
			defer recovery.Handle(c.host.Log(), "a reader of a history of Discord", func(p *recovery.Panic) { c.cancel(p) })
			p := c.fetchPage(ctx, g)
			select {
			case c.backfill.results <- p:
			case <-ctx.Done():
			}
		})
	}
	return nil
}

// fetchPage asks for the next page of a history, and before it for the channel of a thread
// that is unknown.
func (c *connection) fetchPage(ctx context.Context, g gap) historyPage {
	p := historyPage{room: g.room.ID}
	if g.room.thread() && c.shared.parent(g.room.ID) == "" {
		r := g.room
		err := c.verifyToken(ctx, c.client.call(ctx, request{op: "ask for a thread", path: "/channels/" + r.ID, result: &r}))
		if p.gone, p.err = isForbidden(err), err; err != nil {
			return p
		}
		c.recordThreads(r)
	}
	err := c.verifyToken(ctx, c.client.call(ctx, request{
		op: "ask for the history", path: fmt.Sprintf("/channels/%s/messages?limit=%d&after=%d", g.room.ID, pageSize, g.after), result: &p.messages,
	}))
	if p.forbidden, p.err = isForbidden(err), err; err != nil {
		return p
	}
	p.complete = len(p.messages) < pageSize
	slices.SortFunc(p.messages, func(a, b message) int { return cmp.Compare(snowflake(a.ID), snowflake(b.ID)) })
	p.messages = slices.DeleteFunc(p.messages, func(m message) bool { return snowflake(m.ID) <= g.after })
	return p
}

// onHistoryPage takes what a reader has brought. Once a history is read to its end, what
// waited for it follows.
func (c *connection) onHistoryPage(ctx context.Context, p historyPage, take chat.EventHandler) error {
	g, stale := c.session.gaps[p.room], c.backfill.reread[p.room]
	delete(c.backfill.reading, p.room)
	delete(c.backfill.reread, p.room)
	switch {
	case g.room.ID == "":
		return nil // the bot was taken out of its server
	case p.gone:
		c.host.Log().Warn("messages are left out: their thread is not there", "room", p.room, "events", len(g.deferred), "error", p.err)
		g.deferred = nil
	case p.forbidden:
		c.host.Log().Debug("a history is not handed out", "room", p.room, "error", p.err)
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
		if err := c.onMessage(ctx, m, take); err != nil {
			return err
		}
		g.after = snowflake(m.ID)
		g.deferred = removeEvent(g.deferred, m.ID)
	}
	g.attempts, g.due = 0, time.Time{}
	c.session.gaps[p.room] = g
	if !p.gone && !p.forbidden && (!p.complete || stale) {
		return nil
	}
	for _, h := range g.deferred {
		if err := c.handleEvent(ctx, h.frame, take); err != nil {
			return err
		}
	}
	delete(c.session.gaps, p.room)
	c.backfill.overflowed = false
	return nil
}

// retryGap has a history that could not be read be read later. Only the first failure in
// a row is shown.
func (c *connection) retryGap(g gap, err error) {
	g.attempts++
	wait := firstRetry << min(g.attempts-1, 16)
	after, global := retryHint(err)
	g.due = time.Now().Add(max(min(wait, lastRetry), after))
	if global {
		c.backfill.pausedUntil = g.due
	}
	c.session.gaps[g.room.ID] = g
	if g.attempts == 1 {
		c.host.ReportError(fmt.Errorf("the history of %s is read later, and its events wait: %w", g.room.ID, err))
		return
	}
	c.host.Log().Debug("a history cannot be read", "room", g.room.ID, "attempts", g.attempts, "error", err)
}

// removeEvent is a queue without a message that the history had. The queue may be that of
// another connection too, so it is not changed.
func removeEvent(waiting []deferredEvent, id string) (rest []deferredEvent) {
	for _, h := range waiting {
		if h.id != id {
			rest = append(rest, h)
		}
	}
	return rest
}
