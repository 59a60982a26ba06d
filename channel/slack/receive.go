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
	maxBuffered = 1000 // envelopes are read before they are taken
	// nameWait is how long an envelope waits for names. Slack wants it acknowledged
	// within 3 s (https://docs.slack.dev/apis/events-api/#responding), and sends it
	// again if it is not.
	nameWait = time.Second
)

// receiver is one time of receiving. What takes long (histories, names, the next
// socket) goes on beside its loop, which takes one envelope after the other:
//
//   - chat.EventHandler commits what an envelope brings, with the position, in a few
//     transactions. Then the envelope is acknowledged: a crash after that loses nothing.
//   - A message in a room whose history is unread waits for that history, which goes
//     first. It is acknowledged at once all the same: the saved position of the room is
//     before it, so after a crash the history has it. Only where the bot may not read the
//     history, or Slack wants to be asked for it later, the message is taken at once.
type receiver struct {
	*connection
	take   chat.EventHandler
	events chan socketEvent // from all sockets
	wg     sync.WaitGroup

	// Owned by the loop.
	cursors  *cursors // of the rooms that were heard of
	backfill backfill
	renewal  renewal
}

// handleSocketEvent is an envelope, or the end of a socket.
type socketEvent struct {
	envelope
	socket     *socket
	receivedAt time.Time
	err        error // of the socket; it is read no more

	// Of an event.
	message   message
	isMessage bool  // it is one of messages
	parseErr  error // what is wrong with it
	// Of a button that was pressed.
	press   chat.Event
	isPress bool
}

// Receive implements [chat.Platform]. It reads on while something is taken, because a
// pong is among what is read.
func (c *connection) Receive(ctx context.Context, position string, take chat.EventHandler) error {
	ctx, done := c.bindContext(ctx)
	in := &receiver{connection: c, take: take, events: make(chan socketEvent, maxBuffered), cursors: parseCursors(position)}
	defer in.wg.Wait()
	defer done()
	if in.cursors == nil {
		c.host.Log().Warn("the saved position is not understood: what was said meanwhile is not looked for")
		in.cursors = parseCursors("")
	}
	in.backfill.init()
	in.renewal.init()
	in.startReader(ctx, c.currentSocket())
	return c.stopError(ctx, in.loop(ctx))
}

// spawn has something go on beside the loop. A panic of it is the end of the connection.
func (in *receiver) spawn(f func()) {
	in.wg.Go(func() {
		defer recovery.Handle(in.host.Log(), "what goes on beside a channel of Slack", func(p *recovery.Panic) { in.cancel(p) })
		f()
	})
}

// startReader hands on what comes over a socket until it fails or ctx ends. The names that an
// envelope needs are asked for as soon as it is there.
func (in *receiver) startReader(ctx context.Context, s *socket) {
	in.spawn(func() {
		for ended := false; !ended; {
			a := socketEvent{socket: s}
			a.envelope, a.err = s.read(ctx)
			ended, a.receivedAt = a.err != nil, time.Now()
			in.parse(ctx, &a)
			select {
			case in.events <- a:
			case <-ctx.Done():
				return
			}
		}
	})
}

// parse reads what is in an envelope.
func (in *receiver) parse(ctx context.Context, a *socketEvent) {
	switch a.Type {
	case "events_api":
		a.message, a.isMessage, a.parseErr = parseEvent(a.Payload)
		for _, user := range a.message.users() {
			in.fetchNameAsync(ctx, user)
		}
	case "interactive":
		if a.press, a.isPress, a.parseErr = parseButtonPress(a.Payload); a.isPress {
			in.fetchNameAsync(ctx, a.press.User.ID)
		}
	}
}

// loop takes what comes until there is an error. An envelope goes before the past: it
// has three seconds.
func (in *receiver) loop(ctx context.Context) error {
	for {
		select {
		case a := <-in.events:
			if err := in.handleSocketEvent(ctx, a); err != nil {
				return err
			}
			continue
		default:
		}
		if len(in.backfill.queue) > 0 {
			if err := in.handleNext(ctx); err != nil {
				return err
			}
			continue
		}
		if err := in.wait(ctx, in.startBackfill(ctx)); err != nil {
			return err
		}
	}
}

// wait waits until there is something to do. idle is when the next history can be read.
func (in *receiver) wait(ctx context.Context, idle <-chan time.Time) error {
	select {
	case a := <-in.events:
		return in.handleSocketEvent(ctx, a)
	case h := <-in.backfill.results:
		in.onHistory(ctx, h)
	case d := <-in.renewal.results:
		return in.onDialed(ctx, d)
	case <-in.renewal.drained:
		in.renewal.closeOld()
	case <-idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// handleSocketEvent takes what is in an envelope, and acknowledges it then.
func (in *receiver) handleSocketEvent(ctx context.Context, a socketEvent) error {
	if a.err != nil {
		return in.onSocketLost(a)
	}
	if a.Type == "disconnect" {
		return in.onDisconnect(ctx, a)
	}
	if err := in.handleEnvelope(ctx, a); err != nil || a.ID == "" {
		return err
	}
	err := a.socket.acknowledge(ctx, a.ID)
	if a.socket != in.currentSocket() {
		return nil // Slack sends it again on the next socket, and its key is known
	}
	return err
}

// handleEnvelope takes what is in one.
func (in *receiver) handleEnvelope(ctx context.Context, a socketEvent) error {
	switch {
	case errors.Is(a.parseErr, errEventsDropped):
		in.host.ReportError(a.parseErr)
	case a.parseErr != nil: // it would not be understood the next time
		in.host.Log().Warn("an envelope is not understood and left out", "envelope", a.ID, "error", in.client.redact([]byte(a.parseErr.Error())))
	case a.isMessage && in.deferMessage(a.message):
	case a.isMessage:
		return in.handleMessage(ctx, a.message, a.receivedAt.Add(nameWait))
	case a.isPress:
		if name := in.userName(ctx, a.press.User.ID, a.receivedAt.Add(nameWait)); name != "" {
			a.press.User.Name = name
		}
		a.press.Position = in.cursors.String()
		return in.take(ctx, a.press)
	}
	return nil
}

// handleMessage takes a message, or a change of one, and moves the position over it. Names are
// waited for until a moment.
func (in *receiver) handleMessage(ctx context.Context, m message, until time.Time) error {
	e, ok := in.toEvent(m)
	if !ok {
		return nil
	}
	if e.Kind == chat.EventMessage {
		in.cursors.record(m, e, in.bot.ID)
	}
	e.Text = in.resolveText(ctx, e.Text, until)
	if e.Kind != chat.EventDeleted {
		e.User.Name = in.userName(ctx, e.User.ID, until)
	}
	e.Position = in.cursors.String()
	return in.take(ctx, e)
}

// users are the users whose names are needed to show a message.
func (m message) users() (all []string) {
	if m.Message != nil {
		return m.Message.users()
	}
	if m.User != "" && m.BotID == "" {
		all = append(all, m.User)
		all = append(all, mentionedUsers(m.fullText())...)
	}
	return all
}
