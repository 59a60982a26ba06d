package matrix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"mailroom/internal/recovery"
)

const (
	// takeTime is how long the rooms of one answer may ask the homeserver for what they
	// need. A room that needs longer is read beside the others.
	takeTime = 2 * time.Second
	// mostBehind bounds the rooms that are behind, which the position names.
	mostBehind = 100
	maxReading = 4 // rooms that are read at once
	// firstRetry and lastRetry are the pauses after a room that could not be read.
	firstRetry = 200 * time.Millisecond
	lastRetry  = time.Minute
)

// late reads rooms beside the loop of Receive, which owns all of it but told. The rooms
// themselves are in the position: what happened in them since a place was not received.
type late struct {
	told    chan part
	reading map[string]bool // rooms that are being read
	missed  map[string]bool // of those: more happened in them since
	tries   map[string]int  // that failed in a row
	due     map[string]time.Time
	quiet   time.Time // no room is read before
	joining map[string]bool
	beside  sync.WaitGroup
}

// part is what a reader brings of a room: what happened until a place.
type part struct {
	room  string
	until string
	said  []taken
	err   error
}

func newLate() late {
	return late{
		told: make(chan part), reading: map[string]bool{}, missed: map[string]bool{}, tries: map[string]int{},
		due: map[string]time.Time{}, joining: map[string]bool{},
	}
}

// events are what happened in a room, as the bot reads it.
func (r *receiver) events(ctx context.Context, room string, t timeline, from position) (all []taken, err error) {
	events, err := r.whole(ctx, room, t, from)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		said, ok, err := r.read(ctx, room, e)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, said)
		}
	}
	return all, nil
}

// leave notes that a room could not be read. Only the first failure in a row is shown.
func (r *receiver) leave(room string, err error) {
	l := &r.late
	l.tries[room]++
	wait := firstRetry << min(l.tries[room]-1, 16)
	l.due[room] = time.Now().Add(max(min(wait, lastRetry), afterOf(err)))
	if e, ok := errors.AsType[*refused](err); ok && e.name == "M_LIMIT_EXCEEDED" {
		l.quiet = l.due[room] // it is of the account
	}
	if l.tries[room] == 1 {
		r.link.ReportError(fmt.Errorf("%s is read later, and its events wait: %w", room, err))
		return
	}
	r.link.Log().Debug("a room cannot be read", "room", room, "attempts", l.tries[room], "error", err)
}

// readLate starts reading the rooms that are due. It returns when the next one is; nil if
// a reader or nothing is waited for.
func (r *receiver) readLate(ctx context.Context) <-chan time.Time {
	l := &r.late
	var rooms []string
	for room := range r.at.Behind {
		if !l.reading[room] {
			rooms = append(rooms, room)
		}
	}
	if len(rooms) == 0 {
		return nil
	}
	slices.SortFunc(rooms, func(a, b string) int { return cmp.Or(l.due[a].Compare(l.due[b]), cmp.Compare(a, b)) })
	for _, room := range rooms {
		if len(l.reading) >= maxReading {
			return nil
		}
		due := l.due[room]
		if due.Before(l.quiet) {
			due = l.quiet
		}
		if wait := time.Until(due); wait > 0 {
			return time.After(wait)
		}
		l.reading[room] = true
		from, until := r.at.Behind[room], r.at.Since
		l.beside.Go(func() {
			defer recovery.Handle(r.link.Log(), "a reader of a room of Matrix", func(*recovery.Panic) { r.end() })
			p := part{room: room, until: until}
			if from.Join {
				p.err = r.join(ctx, room)
			} else {
				p.said, p.err = r.events(ctx, room, timeline{Limited: true, Prev: until}, from)
			}
			select {
			case l.told <- p:
			case <-ctx.Done():
			}
		})
	}
	return nil
}

// takeLate hands in what a reader has brought. What happened in the room since then is
// read next.
func (r *receiver) takeLate(ctx context.Context, p part) error {
	l := &r.late
	missed := l.missed[p.room]
	from, left := r.at.Behind[p.room]
	delete(l.reading, p.room)
	switch {
	case !left:
		return nil // the whole room is read again
	case p.err != nil && (ctx.Err() != nil || fatal(p.err)):
		return over(ctx, p.err)
	case p.err != nil:
		if !from.Join { // a history is read to its end the next time
			delete(l.missed, p.room)
		}
		r.leave(p.room, p.err)
		return nil
	}
	delete(l.missed, p.room)
	delete(l.tries, p.room)
	delete(l.due, p.room)
	behind := maps.Clone(r.at.Behind)
	delete(behind, p.room)
	switch {
	case missed && from.Join:
		behind[p.room] = position{Since: from.Since}
	case missed:
		behind[p.room] = position{Since: p.until}
	}
	return r.handAll(ctx, p.said, r.at.Since, behind)
}

// handAll hands events in. The last one has the place behind all of them; a crash before
// that has the others come again.
func (r *receiver) handAll(ctx context.Context, all []taken, since string, behind map[string]position) error {
	at := r.at
	for i, e := range all {
		if e.id != "" {
			at.Room, at.Event = e.Room.Chat, e.id
		}
		if i == len(all)-1 {
			at.Since, at.First, at.Behind = since, false, behind
		}
		e.Position = at.String()
		if err := r.hand(ctx, e.Event); err != nil {
			return err
		}
	}
	r.at = position{Since: since, Room: at.Room, Event: at.Event, Behind: behind}
	return nil
}
