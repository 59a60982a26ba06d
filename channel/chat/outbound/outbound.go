// Package outbound is the sending half of a chat channel: it sends deliveries, and keeps what a room
// shows besides them current. What to show is decided by the package room.
package outbound

import (
	"context"
	"sync"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/room"
	"mailroom/internal/recovery"
	"mailroom/store"
)

// Options configure an [Outbound].
type Options struct {
	Chat     chat.Options
	Host     *channel.Host
	Platform chat.Platform
	Caps     chat.Capabilities
	Limiter  *chat.Limiter
	Rooms    *Rooms
}

// Outbound is the sending half of one connection.
type Outbound struct {
	command string // how the operator calls this program
	url     string // address of the server's pages; "": unknown
	parts   int    // most messages of a reply; 0: no limit
	conn    *connection
	follows *follower
	redraws *redrawer
	late    *lateness
}

// New returns the sending half of a connection.
func New(o Options) *Outbound {
	c := &connection{host: o.Host, access: &o.Chat.Access, platform: o.Platform, caps: o.Caps, limiter: o.Limiter,
		rooms: o.Rooms}
	parts := o.Chat.MaxParts
	if o.Caps.SingleLine {
		parts *= 10
	}
	return &Outbound{
		command: o.Chat.Command, url: o.Chat.URL, parts: parts, conn: c,
		follows: &follower{conn: c, streams: o.Chat.Follow, previews: o.Chat.Previews && o.Caps.Edits,
			watches: make(chan watch, maxWatches)},
		redraws: &redrawer{conn: c, commits: o.Chat.Commits},
		late:    &lateness{conn: c, within: o.Chat.AnswerWithin, added: make(chan watch, maxLate)},
	}
}

// Watch shows in the room at what a conversation writes after the entry number after, until the conversation's run
// ends or waits; 0 means after its last entry. Watch is called when a user wrote in the room. It is best effort,
// because the reply is delivered in any case.
func (o *Outbound) Watch(thread string, at chat.Room, after int64) {
	o.follows.watch(thread, at, after)
	o.late.add(thread, at)
}

// Maintain follows the watched conversations and redraws decided questions, until ctx ends.
func (o *Outbound) Maintain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		defer recovery.Log(o.conn.host.Log(), "question redraw")
		o.redraws.run(ctx)
	})
	all.Go(func() {
		defer recovery.Log(o.conn.host.Log(), "late answers")
		o.late.run(ctx)
	})
	o.follows.run(ctx)
	return nil
}

// connection is one connection, with the views of the channel's rooms.
type connection struct {
	// Set by New.
	host     *channel.Host
	access   *chat.AccessPolicy
	platform chat.Platform
	caps     chat.Capabilities
	limiter  *chat.Limiter
	rooms    *Rooms
}

// barred reports whether a room is the private chat of a user who was unpaired.
func (c *connection) barred(ctx context.Context, at chat.Room) (bool, error) {
	if at.Group {
		return false, nil
	}
	paired, err := chat.LoadPairings(ctx, c.host, c.host.Name())
	return err == nil && paired.Barred(c.access, c.caps.Account(), at), err
}

// do calls the platform for a room as soon as the limits allow it, see [chat.Limiter.Do].
func (c *connection) do(ctx context.Context, at chat.Room, p chat.Priority, f func(context.Context) error) error {
	return c.limiter.Do(ctx, at, c.caps, p, f)
}

// request requests a delivery of the channel itself, after the queued ones of the room.
func (c *connection) request(ctx context.Context, at chat.Room, key string, labels map[string]string) error {
	for k, v := range at.Labels() {
		labels[k] = v
	}
	return c.host.Answer(ctx, channel.Answer{Room: at.Words(c.caps.BotID), Key: key, Text: room.UnfinishedMark,
		Later: true, Metadata: labels})
}

func (c *connection) tickets(ctx context.Context, ids ...string) (rows []*mailroom.Ticket, err error) {
	err = c.host.View(ctx, func(r store.Reader) (err error) {
		rows, err = r.Tickets(store.TicketQuery{IDs: ids})
		return err
	})
	return rows, err
}
