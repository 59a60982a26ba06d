package discord

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/recovery"
)

// maxBuffered is how many frames are read ahead.
const maxBuffered = 5000

// Receive implements [chat.Platform]. It keeps reading while an event is handled, because
// heartbeats must be acknowledged.
func (c *connection) Receive(ctx context.Context, position string, handle chat.EventHandler) (err error) {
	if c.cursor, err = parsePosition(position, c.shared.startID()); err != nil {
		return err
	}
	ctx, release := httpcall.BindContext(ctx, c.ctx)
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	c.host.Received() // the handshake succeeded
	c.backfill = newBackfill()
	frames := make(chan *frame, maxBuffered)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		defer recovery.Log(c.host.Log(), "the reader of a Discord channel")
		defer close(frames)
		failed = c.readFrames(ctx, frames)
	})
	defer wg.Wait()
	defer c.backfill.wg.Wait()
	defer cancel()
	if err := c.loop(ctx, frames, handle); err != nil {
		return c.stopError(err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return connectionError(failed)
}

// loop handles frames and pages of histories until the frames end.
func (c *connection) loop(ctx context.Context, frames <-chan *frame, handle chat.EventHandler) error {
	if err := c.handleFrame(ctx, c.firstEvent, handle); err != nil {
		return err
	}
	for {
		due := c.startBackfill(ctx)
		select {
		case f, ok := <-frames:
			if !ok {
				return nil
			}
			if err := c.handleFrame(ctx, f, handle); err != nil {
				return err
			}
		case p := <-c.backfill.results:
			if err := c.onHistoryPage(ctx, p, handle); err != nil {
				return err
			}
			c.shared.save(c, c.session)
		case <-due:
		}
	}
}

// readFrames passes on events until the connection fails or ctx ends.
func (c *connection) readFrames(ctx context.Context, frames chan<- *frame) (err error) {
	defer recovery.Error(c.host.Log(), "the reader of a Discord channel", &err)
	for {
		f, err := c.socket.read(ctx)
		if err != nil {
			if isStaleSession(err) {
				c.shared.dropSession()
			}
			return err
		}
		switch f.Op {
		case opAck:
			c.acked.Store(true)
			c.host.Received()
		case opHeartbeat:
			if err := c.sendHeartbeat(ctx); err != nil {
				return err
			}
		case opReconnect:
			return errReconnect
		case opInvalid:
			if string(f.Data) != "true" {
				c.shared.invalidate(time.Now())
			}
			return errInvalid
		case opEvent:
			c.host.Received()
			if f.Type == "INTERACTION_CREATE" {
				c.trackPress(f, time.Now())
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// Maintain implements [chat.Platform]. It sends heartbeats, and defers button presses that wait
// too long for an answer.
func (c *connection) Maintain(ctx context.Context) error {
	ctx, release := httpcall.BindContext(ctx, c.ctx)
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		defer recovery.Handle(c.host.Log(), "the button worker of a Discord channel", func(p *recovery.Panic) { c.cancel(p) })
		c.deferPresses(ctx)
	})
	return c.heartbeatLoop(ctx)
}

// heartbeatLoop sends heartbeats, the first after a random part of the interval. The connection
// is dead if a heartbeat is not acknowledged when the next is due.
func (c *connection) heartbeatLoop(ctx context.Context) error {
	wait := time.Duration(rand.Float64() * float64(c.heartbeatInterval))
	c.acked.Store(true)
	for {
		select {
		case <-ctx.Done():
			return c.closeCause()
		case <-time.After(wait):
		}
		if !c.acked.Swap(false) {
			return errZombie
		}
		if err := c.sendHeartbeat(ctx); err != nil && ctx.Err() == nil {
			return connectionError(err)
		}
		wait = c.heartbeatInterval
	}
}

// closeCause returns the error that ended the connection, or nil if it was only closed.
func (c *connection) closeCause() error {
	if c.ctx.Err() == nil || context.Cause(c.ctx) == context.Canceled {
		return nil
	}
	return context.Cause(c.ctx)
}

// stopError returns the error to stop with: the cause that ended the connection takes
// precedence over the errors that followed from it.
func (c *connection) stopError(err error) error {
	if ended := c.closeCause(); ended != nil {
		return ended
	}
	return err
}

// sendHeartbeat sends a heartbeat with the number of the last event handled: Discord must not
// count later events as received.
func (c *connection) sendHeartbeat(ctx context.Context) error {
	var last any
	if n := c.lastSeq.Load(); n > 0 {
		last = n
	}
	return c.socket.write(ctx, opHeartbeat, last)
}

// handleFrame handles or defers one event. The session is then resumed after it.
func (c *connection) handleFrame(ctx context.Context, f *frame, handle chat.EventHandler) error {
	if !c.deferEvent(f) {
		if err := c.handleEvent(ctx, f, handle); err != nil {
			return err
		}
	}
	if f.Seq != 0 {
		c.session.seq = f.Seq
		c.lastSeq.Store(f.Seq)
	}
	c.shared.save(c, c.session)
	return nil
}

// handleEvent handles one event.
func (c *connection) handleEvent(ctx context.Context, f *frame, handle chat.EventHandler) error {
	switch f.Type {
	case "READY":
		c.backfillPrivate()
	case "GUILD_CREATE":
		return decodeEvent(c, f, func(s *server) error {
			c.onServer(s)
			return nil
		})
	case "GUILD_DELETE":
		return decodeEvent(c, f, func(s *server) error {
			c.onServerGone(s)
			return nil
		})
	case "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE":
		return decodeEvent(c, f, func(r *roleChange) error {
			c.recordRole(r.Server, r.Role)
			return nil
		})
	case "THREAD_CREATE", "THREAD_UPDATE":
		return decodeEvent(c, f, func(r *room) error {
			c.recordThreads(*r)
			return nil
		})
	case "THREAD_LIST_SYNC":
		return decodeEvent(c, f, func(s *server) error {
			c.recordThreads(s.Threads...)
			return nil
		})
	case "MESSAGE_CREATE":
		return decodeEvent(c, f, func(m *message) error { return c.onMessage(ctx, m, handle) })
	case "MESSAGE_UPDATE":
		return decodeEvent(c, f, func(m *message) error { return c.onMessageUpdate(ctx, m, handle) })
	case "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
		return decodeEvent(c, f, func(d *deletion) error { return c.onMessageDelete(ctx, d, handle) })
	case "INTERACTION_CREATE":
		return decodeEvent(c, f, func(i *interaction) error { return c.onButton(ctx, i, handle) })
	}
	return nil
}

// decodeEvent decodes an event and passes it to use. An unreadable event is skipped.
func decodeEvent[T any](c *connection, f *frame, use func(*T) error) error {
	var v T
	if err := json.Unmarshal(f.Data, &v); err != nil {
		c.host.Log().Warn("unreadable event skipped", "type", f.Type, "number", f.Seq, "error", c.client.http.ErrorText(err))
		return nil
	}
	return use(&v)
}

// onMessage handles a new message.
func (c *connection) onMessage(ctx context.Context, m *message, handle chat.EventHandler) error {
	if m.Author != nil && m.Author.ID == c.bot.ID {
		c.shared.recordSent(m.nonce(), m.ID)
		return nil
	}
	e, ok := c.messageEvent(m)
	if e.Kind, e.Key = chat.EventMessage, m.ID; !ok {
		if e, ok = c.unreadable(m); !ok {
			return nil
		}
	}
	if !e.Room.Group {
		c.cursor.touchPrivate(e.Room.Chat)
	}
	return c.submit(ctx, e, m.ID, handle)
}

// onMessageUpdate handles an edit. Changes that Discord makes itself, such as link previews,
// are ignored.
func (c *connection) onMessageUpdate(ctx context.Context, m *message, handle chat.EventHandler) error {
	if m.Edited == "" || m.Content == nil {
		return nil
	}
	e, ok := c.messageEvent(m)
	if !ok {
		return nil
	}
	e.Kind, e.TargetID, e.Key = chat.EventEdited, m.ID, "edit:"+m.ID+":"+m.Edited
	return c.submit(ctx, e, "", handle)
}

// onMessageDelete handles deleted messages.
func (c *connection) onMessageDelete(ctx context.Context, d *deletion, handle chat.EventHandler) error {
	if d.ID != "" {
		d.IDs = append(d.IDs, d.ID)
	}
	if d.Channel == "" {
		return nil
	}
	for _, id := range d.IDs {
		at := c.room(d.Server, d.Channel, "")
		if err := c.submit(ctx, chat.Event{Kind: chat.EventDeleted, Key: "delete:" + id, TargetID: id, Room: at}, "",
			handle); err != nil {
			return err
		}
	}
	return nil
}

// onButton handles a button press.
func (c *connection) onButton(ctx context.Context, i *interaction, handle chat.EventHandler) error {
	from := i.User
	if i.Member != nil && i.Member.User != nil {
		from = i.Member.User
	}
	if i.Type != interactionComponent || i.Message == nil || from == nil || from.Bot {
		return nil
	}
	parent := ""
	if i.Room != nil && i.Room.thread() {
		parent = i.Room.Parent
	}
	return c.submit(ctx, chat.Event{
		Kind: chat.EventButton, Key: pressKey + i.ID, Room: c.room(i.Server, i.Channel, parent), User: from.user(i.Member),
		TargetID: i.Message.ID, Data: i.Data.ID, Addressed: true,
	}, "", handle)
}

// submit passes an event to handle with the position after it. id is the id of a new message, ""
// for any other event.
func (c *connection) submit(ctx context.Context, e chat.Event, id string, handle chat.EventHandler) error {
	if n := snowflake(id); n > 0 {
		c.cursor.newest, e.Written = max(c.cursor.newest, n), snowflakeTime(n)
	}
	e.Position = c.cursor.position(c.hasGaps())
	return handle(ctx, e)
}
