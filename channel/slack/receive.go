package slack

import (
	"context"
	"errors"
	"sync"
	"time"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/recovery"
)

const (
	maxBuffered = 1000 // envelopes read ahead
	// nameWait is how long an envelope waits for names. Slack requires an acknowledgement
	// within 3 s (https://docs.slack.dev/apis/events-api/#responding) and redelivers the
	// envelope otherwise.
	nameWait = time.Second
)

// receiver is the state of one call of Receive. Slow work (histories, names, the next socket) runs concurrently with
// its loop, which handles one envelope after the other:
//
//   - chat.EventHandler commits the content of an envelope with the position, in a few transactions. Then
//     the envelope is acknowledged: a crash after that loses nothing.
//   - A message in a room with an unread history waits for that history. It is acknowledged at
//     once all the same: the room's saved cursor is before it, so after a crash the history
//     contains it. The message is handled at once only if the bot cannot read the history, or
//     the history is rate limited.
type receiver struct {
	*connection
	handle chat.EventHandler
	events chan socketEvent // events from all sockets
	wg     sync.WaitGroup

	// Owned by the loop.
	cursors  *cursors // cursors of the rooms with recent messages
	backfill backfill
	renewal  renewal
}

// socketEvent is an envelope, or the end of a socket.
type socketEvent struct {
	envelope
	socket     *socket
	receivedAt time.Time
	err        error // the socket failed and is no longer read

	// The fields below are for envelopes of type events_api.
	message   message
	isMessage bool  // message is set
	parseErr  error // error of parsing the payload
	// For envelopes of type interactive.
	press   chat.Event
	isPress bool
}

// Receive implements [chat.Platform]. It keeps reading while an event is handled, because pongs
// arrive only while the socket is read.
func (c *connection) Receive(ctx context.Context, position string, handle chat.EventHandler) error {
	ctx, release := httpcall.BindContext(ctx, c.ctx)
	in := &receiver{connection: c, handle: handle, events: make(chan socketEvent, maxBuffered),
		cursors: parseCursors(position)}
	defer in.wg.Wait()
	defer release()
	if in.cursors == nil {
		c.host.Log().Warn("saved position unreadable; messages sent while disconnected are not fetched")
		in.cursors = parseCursors("")
	}
	in.backfill.init()
	in.renewal.init()
	in.startReader(ctx, c.currentSocket())
	in.renewal.suspect(c.currentSocket(), c.options.Recount)
	return c.stopError(ctx, in.loop(ctx))
}

// spawn runs f concurrently. A panic in f ends the connection.
func (in *receiver) spawn(f func()) {
	in.wg.Go(func() {
		defer recovery.Handle(in.host.Log(), "a worker of a Slack channel", func(p *recovery.Panic) { in.cancel(p) })
		f()
	})
}

// startReader passes on the envelopes of a socket until it fails or ctx ends. It starts looking
// up the names that an envelope needs at once.
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

// parse parses the content of an envelope.
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

// loop handles events until an error. Envelopes come before histories, because they must be
// acknowledged within three seconds.
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

// wait handles the next event. idle fires when the next history may be requested.
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
	case <-in.renewal.recount:
		in.openNext(ctx)
	case <-idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// handleSocketEvent handles an envelope and then acknowledges it.
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
		return nil // Slack redelivers it on the next socket, and its key is recognised
	}
	return err
}

// handleEnvelope handles the content of an envelope.
func (in *receiver) handleEnvelope(ctx context.Context, a socketEvent) error {
	switch {
	case errors.Is(a.parseErr, errEventsDropped):
		in.host.ReportError(a.parseErr)
	case a.parseErr != nil: // a redelivery would be just as unreadable
		in.host.Log().Warn("unreadable envelope skipped", "envelope", a.ID, "error",
			in.client.http.Redact([]byte(a.parseErr.Error())))
	case a.isMessage && in.deferMessage(a.message):
	case a.isMessage:
		return in.handleMessage(ctx, a.message, a.receivedAt.Add(nameWait))
	case a.isPress:
		if name := in.userName(ctx, a.press.User.ID, a.receivedAt.Add(nameWait)); name != "" {
			a.press.User.Name = name
		}
		a.press.Position = in.cursors.String()
		return in.handle(ctx, a.press)
	}
	return nil
}

// handleMessage handles a message, or a change of one, and advances the position over it. until
// bounds the wait for names.
func (in *receiver) handleMessage(ctx context.Context, m message, until time.Time) error {
	e, ok := in.toEvent(m)
	if !ok {
		return nil
	}
	if e.Kind == chat.EventMessage {
		in.cursors.record(m, e, in.bot.ID)
	}
	e.Text = in.resolveText(ctx, e.Text, until)
	for i := range e.Context {
		e.Context[i].Text = in.resolveText(ctx, e.Context[i].Text, until)
	}
	if e.Kind != chat.EventDeleted {
		e.User.Name = in.userName(ctx, e.User.ID, until)
	}
	e.Position = in.cursors.String()
	return in.handle(ctx, e)
}

// users returns the users whose names are needed to show a message.
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
