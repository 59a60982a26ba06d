package discord

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"mailroom/channel/chat"
	"mailroom/internal/recovery"
)

// ahead is how many frames are read before they are taken.
const ahead = 5000

// Receive implements [chat.Platform]. It reads on while something is taken, because
// the acknowledgements of heartbeats are to be read.
func (c *connection) Receive(ctx context.Context, position string, take chat.Take) (err error) {
	if c.at, err = readPlace(position, c.memory.start()); err != nil {
		return err
	}
	ctx, done := c.within(ctx)
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	c.link.Received() // it was let in
	c.past = newPast()
	frames := make(chan *frame, ahead)
	var reading sync.WaitGroup
	var failed error
	reading.Go(func() {
		defer recovery.Log(c.link.Log(), "a reader of Discord")
		defer close(frames)
		failed = c.read(ctx, frames)
	})
	defer reading.Wait()
	defer c.past.beside.Wait()
	defer cancel()
	if err := c.loop(ctx, frames, take); err != nil {
		return c.because(err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return trouble(failed)
}

// loop takes events, and what readers bring of histories, until there are no more frames.
func (c *connection) loop(ctx context.Context, frames <-chan *frame, take chat.Take) error {
	if err := c.handle(ctx, c.first, take); err != nil {
		return err
	}
	for {
		due := c.readPast(ctx)
		select {
		case f, ok := <-frames:
			if !ok {
				return nil
			}
			if err := c.handle(ctx, f, take); err != nil {
				return err
			}
		case p := <-c.past.told:
			if err := c.takePast(ctx, p, take); err != nil {
				return err
			}
			c.memory.save(c, c.session)
		case <-due:
		}
	}
}

// read hands on events until the connection fails or ctx ends.
func (c *connection) read(ctx context.Context, frames chan<- *frame) (err error) {
	defer recovery.Error(c.link.Log(), "a reader of Discord", &err)
	for {
		f, err := c.socket.read(ctx)
		if err != nil {
			if stale(err) {
				c.memory.forget()
			}
			return err
		}
		switch f.Op {
		case opAck:
			c.acked.Store(true)
			c.link.Received()
		case opHeartbeat:
			if err := c.beat(ctx); err != nil {
				return err
			}
		case opReconnect:
			return errReconnect
		case opInvalid:
			if string(f.Data) != "true" {
				c.memory.invalidate(time.Now())
			}
			return errInvalid
		case opEvent:
			c.link.Received()
			if f.Type == "INTERACTION_CREATE" {
				c.pressed(f, time.Now())
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// Maintain implements [chat.Platform]: it sends heartbeats, and has people wait who press a
// button while something else is taken.
func (c *connection) Maintain(ctx context.Context) error {
	ctx, done := c.within(ctx)
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() {
		defer recovery.Handle(c.link.Log(), "acknowledgements of Discord", func(p *recovery.Panic) { c.end(p) })
		c.acknowledge(ctx)
	})
	return c.hearts(ctx)
}

// hearts sends heartbeats, the first one at some moment of the interval. A connection on
// which one was not acknowledged when the next is due is dead.
func (c *connection) hearts(ctx context.Context) error {
	wait := time.Duration(rand.Float64() * float64(c.interval))
	c.acked.Store(true)
	for {
		select {
		case <-ctx.Done():
			return c.ended()
		case <-time.After(wait):
		}
		if !c.acked.Swap(false) {
			return errZombie
		}
		if err := c.beat(ctx); err != nil && ctx.Err() == nil {
			return trouble(err)
		}
		wait = c.interval
	}
}

// ended is why nothing more can come of the connection, nil if it was only closed.
func (c *connection) ended() error {
	if c.life.Err() == nil || context.Cause(c.life) == context.Canceled {
		return nil
	}
	return context.Cause(c.life)
}

// because is the error with which receiving ends: what ended the connection counts more
// than what came of it.
func (c *connection) because(err error) error {
	if ended := c.ended(); ended != nil {
		return ended
	}
	return err
}

// beat sends a heartbeat. It names the last event that was taken: no other is said to
// have been received.
func (c *connection) beat(ctx context.Context) error {
	var last any
	if n := c.received.Load(); n > 0 {
		last = n
	}
	return c.socket.write(ctx, opHeartbeat, last)
}

// handle takes one event in, and what it leads to. The session is resumed after it.
func (c *connection) handle(ctx context.Context, f *frame, take chat.Take) error {
	if !c.waits(f) {
		if err := c.event(ctx, f, take); err != nil {
			return err
		}
	}
	if f.Seq != 0 {
		c.session.seq = f.Seq
		c.received.Store(f.Seq)
	}
	c.memory.save(c, c.session)
	return nil
}

// event takes one event in.
func (c *connection) event(ctx context.Context, f *frame, take chat.Take) error {
	switch f.Type {
	case "READY":
		c.catchUpPrivate()
	case "GUILD_CREATE":
		return understood(c, f, func(s *server) error {
			c.server(s)
			return nil
		})
	case "GUILD_DELETE":
		return understood(c, f, func(s *server) error {
			c.away(s)
			return nil
		})
	case "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE":
		return understood(c, f, func(r *roleChange) error {
			c.learnRole(r.Server, r.Role)
			return nil
		})
	case "THREAD_CREATE", "THREAD_UPDATE":
		return understood(c, f, func(r *room) error {
			c.learnThreads(*r)
			return nil
		})
	case "THREAD_LIST_SYNC":
		return understood(c, f, func(s *server) error {
			c.learnThreads(s.Threads...)
			return nil
		})
	case "MESSAGE_CREATE":
		return understood(c, f, func(m *message) error { return c.said(ctx, m, take) })
	case "MESSAGE_UPDATE":
		return understood(c, f, func(m *message) error { return c.edited(ctx, m, take) })
	case "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
		return understood(c, f, func(d *deletion) error { return c.deleted(ctx, d, take) })
	case "INTERACTION_CREATE":
		return understood(c, f, func(i *interaction) error { return c.tapped(ctx, i, take) })
	}
	return nil
}

// understood hands on what an event says. One that is not understood is left out.
func understood[T any](c *connection, f *frame, use func(*T) error) error {
	var v T
	if err := json.Unmarshal(f.Data, &v); err != nil {
		c.link.Log().Warn("an event is not understood and left out", "type", f.Type, "number", f.Seq, "error", c.client.plain(err))
		return nil
	}
	return use(&v)
}

// said takes a message of a person.
func (c *connection) said(ctx context.Context, m *message, take chat.Take) error {
	if m.Author != nil && m.Author.ID == c.bot.ID {
		c.memory.saw(m.nonce(), m.ID)
		return nil
	}
	e, ok := c.spoken(m)
	if !ok {
		return nil
	}
	e.Kind, e.Key = chat.EventMessage, m.ID
	if !e.Room.Group {
		c.at.met(e.Room.Chat)
	}
	return c.hand(ctx, e, m.ID, take)
}

// edited takes a change of a message. One that the platform itself makes, such as the
// picture of a link, is none.
func (c *connection) edited(ctx context.Context, m *message, take chat.Take) error {
	if m.Edited == "" || m.Content == nil {
		return nil
	}
	e, ok := c.spoken(m)
	if !ok {
		return nil
	}
	e.Kind, e.Of, e.Key = chat.EventEdited, m.ID, "edit:"+m.ID+":"+m.Edited
	return c.hand(ctx, e, "", take)
}

// deleted takes the end of messages.
func (c *connection) deleted(ctx context.Context, d *deletion, take chat.Take) error {
	if d.ID != "" {
		d.IDs = append(d.IDs, d.ID)
	}
	if d.Channel == "" {
		return nil
	}
	for _, id := range d.IDs {
		at := c.room(d.Server, d.Channel, "")
		if err := c.hand(ctx, chat.Event{Kind: chat.EventDeleted, Key: "delete:" + id, Of: id, Room: at}, "", take); err != nil {
			return err
		}
	}
	return nil
}

// tapped takes a button that was pressed.
func (c *connection) tapped(ctx context.Context, i *interaction, take chat.Take) error {
	who := i.User
	if i.Member != nil && i.Member.User != nil {
		who = i.Member.User
	}
	if i.Type != interactionComponent || i.Message == nil || who == nil || who.Bot {
		return nil
	}
	parent := ""
	if i.Room != nil && i.Room.thread() {
		parent = i.Room.Parent
	}
	return c.hand(ctx, chat.Event{
		Kind: chat.EventButton, Key: tapKey + i.ID, Room: c.room(i.Server, i.Channel, parent), User: who.user(i.Member),
		Of: i.Message.ID, Data: i.Data.ID, Addressed: true,
	}, "", take)
}

// hand takes an event in. id is that of a message that is new, "" if there is none.
func (c *connection) hand(ctx context.Context, e chat.Event, id string, take chat.Take) error {
	c.at.at = max(c.at.at, snowflake(id))
	e.Position = c.at.position(c.lags())
	return take(ctx, e)
}
