package slack

import (
	"context"
	"errors"
	"sync"
	"time"

	"mailroom/channel/chat"
)

// ahead is how many envelopes are read before they are taken.
const ahead = 1000

// receiving is one time of receiving.
type receiving struct {
	*connection
	take   chat.Take
	places *places   // of the rooms that were heard of
	quiet  time.Time // no history is read before
}

// Receive implements [chat.Platform]. It reads on while something is taken, because a
// pong is among what is read. What the history of a room has goes before what is said
// there now, unless the platform wants to be asked for it later.
func (c *connection) Receive(ctx context.Context, position string, take chat.Take) error {
	ctx, done := c.within(ctx)
	frames := make(chan envelope, ahead)
	var reading sync.WaitGroup
	var failed error
	reading.Go(func() {
		defer close(frames)
		failed = c.read(ctx, frames)
	})
	defer reading.Wait()
	defer done()
	in := &receiving{connection: c, take: take, places: readPlaces(position)}
	if in.places == nil {
		c.link.Log().Warn("the saved position is not understood: what was said meanwhile is not looked for")
		in.places = readPlaces("")
	}
	err := in.receive(ctx, frames)
	if err == nil {
		err = failed // there are no more frames, so nobody writes it
	}
	return c.over(ctx, err)
}

// read hands envelopes on until the socket fails or ctx ends.
func (c *connection) read(ctx context.Context, frames chan<- envelope) error {
	for {
		e, err := c.socket.read(ctx)
		if err != nil {
			return err
		}
		select {
		case frames <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive takes what is there until there is no more: nil, or an error. Histories are
// read one after the other while nothing comes.
func (in *receiving) receive(ctx context.Context, frames <-chan envelope) error {
	for {
		var idle <-chan time.Time // when a history is to be read; nil: there is none
		at, left := in.places.next()
		if left {
			idle = time.After(max(time.Until(in.quiet), 0))
		}
		select {
		case e, ok := <-frames:
			if !ok {
				return nil
			}
			if err := in.envelope(ctx, e); err != nil {
				return err
			}
		case <-idle:
			if err := in.catchUp(ctx, at); err != nil {
				return err
			}
		}
	}
}

// envelope takes what is in one, and acknowledges it then.
func (in *receiving) envelope(ctx context.Context, e envelope) error {
	if err := ended(e); err != nil {
		return err
	}
	var err error
	switch e.Type {
	case "events_api":
		err = in.happened(ctx, e)
	case "interactive":
		err = in.tapped(ctx, e)
	}
	if err != nil || e.ID == "" {
		return err
	}
	return in.socket.acknowledge(ctx, e.ID)
}

// happened takes an event.
func (in *receiving) happened(ctx context.Context, e envelope) error {
	m, ok, err := readEvent(e.Payload)
	switch {
	case errors.Is(err, errRate):
		in.link.Trouble(err)
		return nil
	case err != nil:
		in.odd(e, err)
		return nil
	case !ok:
		return nil
	}
	if at := place(m); in.places.left[at] {
		if err := in.catchUp(ctx, at); err != nil {
			return err
		}
	}
	return in.one(ctx, m)
}

// one takes a message, or a change of one, and moves the position over it.
func (in *receiving) one(ctx context.Context, m message) error {
	e, ok := in.event(m)
	if !ok {
		return nil
	}
	if e.Kind == chat.Said {
		in.places.saw(m, e, in.bot.ID)
	}
	e.Text = in.legible(ctx, e.Text)
	if e.Kind != chat.Deleted {
		e.User.Name = in.name(ctx, e.User.ID)
	}
	e.Position = in.places.String()
	return in.take(ctx, e)
}

// tapped takes a button that was pressed.
func (in *receiving) tapped(ctx context.Context, e envelope) error {
	tap, ok, err := readTap(e.Payload)
	if err != nil {
		in.odd(e, err)
		return nil
	}
	if !ok {
		return nil
	}
	if name := in.name(ctx, tap.User.ID); name != "" {
		tap.User.Name = name
	}
	tap.Position = in.places.String()
	return in.take(ctx, tap)
}

// odd tells of an envelope that is not understood: it would not be the next time.
func (in *receiving) odd(e envelope, err error) {
	in.link.Log().Warn("an envelope is not understood and left out", "envelope", e.ID, "error", in.client.quote([]byte(err.Error())))
}
