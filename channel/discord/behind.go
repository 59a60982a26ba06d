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
	maxReading = 4 // histories that are read at once
	// maxHeld and maxHeldBytes bound the events that wait for histories, in all rooms
	// together.
	maxHeld      = 1000
	maxHeldBytes = 8 << 20
	// firstRetry and lastRetry are the pauses after a history that could not be read.
	firstRetry = 200 * time.Millisecond
	lastRetry  = time.Minute
)

// gap is a room whose history is read before its next event is taken. A history that
// fails or is slow delays the events of its room alone: they wait here, in their order.
// While there is a gap, the saved position stays before it.
type gap struct {
	room    room
	server  string
	after   uint64 // id of the last message that was taken from the history
	waiting []held
	tries   int       // that failed in a row
	due     time.Time // of the next one
}

// held is an event that waits for a history.
type held struct {
	frame *frame
	id    string // of a message that is new, "" for any other event
}

// past reads the histories beside the loop of Receive, which owns all of it.
type past struct {
	told    chan part
	reading map[string]bool // rooms whose history is being read
	stale   map[string]bool // of those being read: read once more, because messages were missed
	quiet   time.Time       // no history is read before
	full    bool            // maxHeld was reached, and logged
	beside  sync.WaitGroup
}

// part is what a reader brings of the history of a room.
type part struct {
	room  string
	said  []message // in order
	whole bool      // there is no more
	gone  bool      // the thread does not exist, or not for the bot
	shut  bool      // the history is not handed out
	err   error
}

func newPast() past {
	return past{told: make(chan part), reading: map[string]bool{}, stale: map[string]bool{}}
}

// lags reports whether messages of some room were not received yet: the position stays.
func (c *connection) lags() bool { return len(c.session.awaited)+len(c.session.behind) > 0 }

// leave has the history of a room be read from after on. A gap that is there keeps its
// place.
func (c *connection) leave(r room, server string, after uint64) {
	if _, known := c.session.behind[r.ID]; known {
		if c.past.reading[r.ID] {
			c.past.stale[r.ID] = true
		}
		return
	}
	if !c.lags() {
		c.at.hold()
	}
	c.session.behind[r.ID] = gap{room: r, server: server, after: after}
}

// waits has an event of a room wait if the history of that room goes first. The bot's own
// messages never wait. A thread whose channel is unknown gets a gap: what its channel is,
// is asked beside the loop too.
func (c *connection) waits(f *frame) bool {
	switch f.Type {
	case "MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
	default:
		return false
	}
	var m message
	if json.Unmarshal(f.Data, &m) != nil || m.Author != nil && m.Author.ID == c.bot.ID {
		return false
	}
	h := held{frame: f}
	if f.Type == "MESSAGE_CREATE" {
		h.id = m.ID
	}
	if _, behind := c.session.behind[m.Channel]; !behind {
		if !m.byPerson() || m.RoomType == nil || c.memory.parent(m.Channel) != "" {
			return false
		}
		r, after := room{ID: m.Channel, Type: *m.RoomType}, c.at.at
		if !r.thread() {
			return false
		}
		if h.id != "" {
			after = snowflake(m.ID) - 1
		}
		c.leave(r, m.Server, after)
	}
	if c.fits(f) {
		g := c.session.behind[m.Channel]
		g.waiting = append(g.waiting, h)
		c.session.behind[m.Channel] = g
	}
	return true
}

// fits reports whether one more event can wait. One that cannot is left to the history:
// it has each message as it is then, and the position is before it.
func (c *connection) fits(f *frame) bool {
	events, bytes := 1, len(f.Data)
	for _, g := range c.session.behind {
		events += len(g.waiting)
		for _, h := range g.waiting {
			bytes += len(h.frame.Data)
		}
	}
	if events <= maxHeld && bytes <= maxHeldBytes {
		return true
	}
	if !c.past.full {
		c.past.full = true
		c.link.Log().Warn("too many events wait for histories: the histories alone tell the others", "events", events-1)
	}
	return false
}

// readPast starts reading the histories that are due. It returns when the next one is; nil
// if a reader or nothing is waited for.
func (c *connection) readPast(ctx context.Context) <-chan time.Time {
	if len(c.session.behind) == 0 {
		return nil
	}
	now := time.Now()
	var due []gap
	for id, g := range c.session.behind {
		if !c.past.reading[id] {
			if g.due.Before(c.past.quiet) {
				g.due = c.past.quiet
			}
			due = append(due, g)
		}
	}
	slices.SortFunc(due, func(a, b gap) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.room.ID, b.room.ID)) })
	for _, g := range due {
		if len(c.past.reading) >= maxReading {
			return nil
		}
		if wait := g.due.Sub(now); wait > 0 {
			return time.After(wait)
		}
		c.past.reading[g.room.ID] = true
		c.past.beside.Go(func() {
			defer recovery.Handle(c.link.Log(), "a reader of a history of Discord", func(p *recovery.Panic) { c.end(p) })
			p := c.partOf(ctx, g)
			select {
			case c.past.told <- p:
			case <-ctx.Done():
			}
		})
	}
	return nil
}

// partOf asks for the next page of a history, and before it for the channel of a thread
// that is unknown.
func (c *connection) partOf(ctx context.Context, g gap) part {
	p := part{room: g.room.ID}
	if g.room.thread() && c.memory.parent(g.room.ID) == "" {
		r := g.room
		err := c.refusedToken(ctx, c.client.call(ctx, call{what: "ask for a thread", path: "/channels/" + r.ID, out: &r}))
		if p.gone, p.err = unreadable(err), err; err != nil {
			return p
		}
		c.learnThreads(r)
	}
	err := c.refusedToken(ctx, c.client.call(ctx, call{
		what: "ask for the history", path: fmt.Sprintf("/channels/%s/messages?limit=%d&after=%d", g.room.ID, pageSize, g.after), out: &p.said,
	}))
	if p.shut, p.err = unreadable(err), err; err != nil {
		return p
	}
	p.whole = len(p.said) < pageSize
	slices.SortFunc(p.said, func(a, b message) int { return cmp.Compare(snowflake(a.ID), snowflake(b.ID)) })
	p.said = slices.DeleteFunc(p.said, func(m message) bool { return snowflake(m.ID) <= g.after })
	return p
}

// takePast takes what a reader has brought. Once a history is read to its end, what
// waited for it follows.
func (c *connection) takePast(ctx context.Context, p part, take chat.Take) error {
	g, stale := c.session.behind[p.room], c.past.stale[p.room]
	delete(c.past.reading, p.room)
	delete(c.past.stale, p.room)
	switch {
	case g.room.ID == "":
		return nil // the bot was taken out of its server
	case p.gone:
		c.link.Log().Warn("messages are left out: their thread is not there", "room", p.room, "events", len(g.waiting), "error", p.err)
		g.waiting = nil
	case p.shut:
		c.link.Log().Debug("a history is not handed out", "room", p.room, "error", p.err)
		if g.room.Type == roomPrivate {
			c.at.left(p.room)
		}
	case p.err != nil:
		c.retryPast(g, p.err)
		return nil
	}
	for i := range p.said {
		m := &p.said[i]
		m.Server, m.RoomType = g.server, &g.room.Type
		if err := c.said(ctx, m, take); err != nil {
			return err
		}
		g.after = snowflake(m.ID)
		g.waiting = without(g.waiting, m.ID)
	}
	g.tries, g.due = 0, time.Time{}
	c.session.behind[p.room] = g
	if !p.gone && !p.shut && (!p.whole || stale) {
		return nil
	}
	for _, h := range g.waiting {
		if err := c.event(ctx, h.frame, take); err != nil {
			return err
		}
	}
	delete(c.session.behind, p.room)
	c.past.full = false
	return nil
}

// retryPast has a history that could not be read be read later. Only the first failure in
// a row is shown.
func (c *connection) retryPast(g gap, err error) {
	g.tries++
	wait := firstRetry << min(g.tries-1, 16)
	after, global := asked(err)
	g.due = time.Now().Add(max(min(wait, lastRetry), after))
	if global {
		c.past.quiet = g.due
	}
	c.session.behind[g.room.ID] = g
	if g.tries == 1 {
		c.link.ReportError(fmt.Errorf("the history of %s is read later, and its events wait: %w", g.room.ID, err))
		return
	}
	c.link.Log().Debug("a history cannot be read", "room", g.room.ID, "attempts", g.tries, "error", err)
}

// without is a queue without a message that the history had. The queue may be that of
// another connection too, so it is not changed.
func without(waiting []held, id string) (rest []held) {
	for _, h := range waiting {
		if h.id != id {
			rest = append(rest, h)
		}
	}
	return rest
}
