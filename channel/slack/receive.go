package slack

import (
	"context"
	"errors"
	"sync"
	"time"

	"mailroom/channel/chat"
	"mailroom/internal/recovery"
)

const (
	ahead = 1000 // envelopes are read before they are taken
	// nameWait is how long an envelope waits for names. Slack wants it acknowledged
	// within 3 s (https://docs.slack.dev/apis/events-api/#responding), and sends it
	// again if it is not.
	nameWait = time.Second
)

// receiving is one time of receiving. What takes long (histories, names, the next
// socket) goes on beside its loop, which takes one envelope after the other:
//
//   - chat.Take commits what an envelope brings, with the position, in a few
//     transactions. Then the envelope is acknowledged: a crash after that loses nothing.
//   - A message in a room whose history is unread waits for that history, which goes
//     first. It is acknowledged at once all the same: the saved position of the room is
//     before it, so after a crash the history has it. Only where the bot may not read the
//     history, or Slack wants to be asked for it later, the message is taken at once.
type receiving struct {
	*connection
	take    chat.Take
	arrived chan arrival // from all sockets
	beside  sync.WaitGroup

	// Owned by the loop.
	places *places // of the rooms that were heard of
	past   past
	renew  renewal
}

// arrival is an envelope, or the end of a socket.
type arrival struct {
	envelope
	on  *socket
	at  time.Time
	err error // of the socket; it is read no more

	// Of an event.
	message message
	event   bool  // it is one of messages
	odd     error // what is wrong with it
	// Of a button that was pressed.
	tap    chat.Event
	tapped bool
}

// Receive implements [chat.Platform]. It reads on while something is taken, because a
// pong is among what is read.
func (c *connection) Receive(ctx context.Context, position string, take chat.Take) error {
	ctx, done := c.within(ctx)
	in := &receiving{connection: c, take: take, arrived: make(chan arrival, ahead), places: readPlaces(position)}
	defer in.beside.Wait()
	defer done()
	if in.places == nil {
		c.link.Log().Warn("the saved position is not understood: what was said meanwhile is not looked for")
		in.places = readPlaces("")
	}
	in.past.begin()
	in.renew.begin()
	in.reads(ctx, c.current())
	return c.over(ctx, in.loop(ctx))
}

// goes has something go on beside the loop. A panic of it is the end of the connection.
func (in *receiving) goes(f func()) {
	in.beside.Go(func() {
		defer recovery.Handle(in.link.Log(), "what goes on beside a channel of Slack", func(p *recovery.Panic) { in.end(p) })
		f()
	})
}

// reads hands on what comes over a socket until it fails or ctx ends. The names that an
// envelope needs are asked for as soon as it is there.
func (in *receiving) reads(ctx context.Context, s *socket) {
	in.goes(func() {
		for ended := false; !ended; {
			a := arrival{on: s}
			a.envelope, a.err = s.read(ctx)
			ended, a.at = a.err != nil, time.Now()
			in.open(ctx, &a)
			select {
			case in.arrived <- a:
			case <-ctx.Done():
				return
			}
		}
	})
}

// open reads what is in an envelope.
func (in *receiving) open(ctx context.Context, a *arrival) {
	switch a.Type {
	case "events_api":
		a.message, a.event, a.odd = readEvent(a.Payload)
		for _, user := range a.message.people() {
			in.lookUp(ctx, user)
		}
	case "interactive":
		if a.tap, a.tapped, a.odd = readTap(a.Payload); a.tapped {
			in.lookUp(ctx, a.tap.User.ID)
		}
	}
}

// loop takes what comes until there is an error. An envelope goes before the past: it
// has three seconds.
func (in *receiving) loop(ctx context.Context) error {
	for {
		select {
		case a := <-in.arrived:
			if err := in.arrival(ctx, a); err != nil {
				return err
			}
			continue
		default:
		}
		if len(in.past.queue) > 0 {
			if err := in.takePast(ctx); err != nil {
				return err
			}
			continue
		}
		if err := in.wait(ctx, in.askPast(ctx)); err != nil {
			return err
		}
	}
}

// wait waits until there is something to do. idle is when the next history can be read.
func (in *receiving) wait(ctx context.Context, idle <-chan time.Time) error {
	select {
	case a := <-in.arrived:
		return in.arrival(ctx, a)
	case h := <-in.past.told:
		in.hearPast(ctx, h)
	case d := <-in.renew.dialed:
		return in.renewed(ctx, d)
	case <-in.renew.drained:
		in.renew.closeOld()
	case <-idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// arrival takes what is in an envelope, and acknowledges it then.
func (in *receiving) arrival(ctx context.Context, a arrival) error {
	if a.err != nil {
		return in.lost(a)
	}
	if a.Type == "disconnect" {
		return in.disconnect(ctx, a)
	}
	if err := in.envelope(ctx, a); err != nil || a.ID == "" {
		return err
	}
	err := a.on.acknowledge(ctx, a.ID)
	if a.on != in.current() {
		return nil // Slack sends it again on the next socket, and its key is known
	}
	return err
}

// envelope takes what is in one.
func (in *receiving) envelope(ctx context.Context, a arrival) error {
	switch {
	case errors.Is(a.odd, errRate):
		in.link.ReportError(a.odd)
	case a.odd != nil: // it would not be understood the next time
		in.link.Log().Warn("an envelope is not understood and left out", "envelope", a.ID, "error", in.client.quote([]byte(a.odd.Error())))
	case a.event && in.pass(a.message):
	case a.event:
		return in.one(ctx, a.message, a.at.Add(nameWait))
	case a.tapped:
		if name := in.name(ctx, a.tap.User.ID, a.at.Add(nameWait)); name != "" {
			a.tap.User.Name = name
		}
		a.tap.Position = in.places.String()
		return in.take(ctx, a.tap)
	}
	return nil
}

// one takes a message, or a change of one, and moves the position over it. Names are
// waited for until a moment.
func (in *receiving) one(ctx context.Context, m message, until time.Time) error {
	e, ok := in.event(m)
	if !ok {
		return nil
	}
	if e.Kind == chat.EventMessage {
		in.places.saw(m, e, in.bot.ID)
	}
	e.Text = in.legible(ctx, e.Text, until)
	if e.Kind != chat.EventDeleted {
		e.User.Name = in.name(ctx, e.User.ID, until)
	}
	e.Position = in.places.String()
	return in.take(ctx, e)
}

// people are the users whose names are needed to show a message.
func (m message) people() (all []string) {
	if m.Message != nil {
		return m.Message.people()
	}
	if m.User != "" && m.Bot == "" {
		all = append(all, m.User)
		all = append(all, mentions(m.words())...)
	}
	return all
}
