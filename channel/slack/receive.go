package slack

import (
	"context"
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
	places *places // of the rooms that were heard of
}

// Receive implements [chat.Platform]. It reads on while something is taken, because a
// pong is among what is read. What the histories have goes before what comes now, but
// for rooms whose history the platform wants to be asked for later.
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

// receive takes what is there until there is no more: nil, or an error.
func (in *receiving) receive(ctx context.Context, frames <-chan envelope) error {
	again := time.NewTimer(0) // to read the histories that are left
	defer again.Stop()
	<-again.C
	for {
		after, err := in.catchUp(ctx)
		if err != nil {
			return err
		}
		if after > 0 {
			again.Reset(after)
		}
		for now := true; now; {
			select {
			case e, ok := <-frames:
				if !ok {
					return nil
				}
				if err := in.envelope(ctx, e); err != nil {
					return err
				}
			case <-again.C:
				now = false
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
	if err != nil {
		in.odd(e, err)
		return nil
	}
	if !ok {
		return nil
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
