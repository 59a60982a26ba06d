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

	"mailroom/channel/httpcall"
	"mailroom/internal/recovery"
)

const (
	// inlineTimeout bounds the calls to the homeserver while one sync response is processed. Rooms
	// that need longer are read in the background.
	inlineTimeout = 2 * time.Second
	// maxPendingRooms bounds the rooms that the saved position lists as pending.
	maxPendingRooms = 100
	maxRoomReaders  = 4 // rooms read in the background at once
	// minRetryDelay and maxRetryDelay bound the backoff of a room that could not be read.
	minRetryDelay = 200 * time.Millisecond
	maxRetryDelay = time.Minute
)

// catchUp reads pending rooms in the background. The receive loop owns every field but results. The
// list of pending rooms is part of the position, so that it survives a restart.
type catchUp struct {
	results     chan roomResult
	reading     map[string]bool // rooms with a reader
	missed      map[string]bool // subset of reading: new events arrived since the reader started
	failures    map[string]int  // consecutive failures by room
	nextTry     map[string]time.Time
	pausedUntil time.Time // time before which no reader starts
	joining     map[string]bool
	wg          sync.WaitGroup
}

// roomResult has the events that a reader found in a room up to the sync token until.
type roomResult struct {
	room   string
	until  string
	events []inboundEvent
	err    error
}

func newCatchUp() catchUp {
	return catchUp{
		results: make(chan roomResult), reading: map[string]bool{}, missed: map[string]bool{}, failures: map[string]int{},
		nextTry: map[string]time.Time{}, joining: map[string]bool{},
	}
}

// roomEvents converts a room's timeline into chat events, filling gaps from its history.
func (r *receiver) roomEvents(
	ctx context.Context, room string, t timeline, from position,
) (all []inboundEvent, err error) {
	events, err := r.backfill(ctx, room, t, from)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		event, ok, err := r.toEvent(ctx, room, e)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, event)
		}
	}
	return all, nil
}

// deferRoom schedules a retry of a room that could not be read. It reports only the first of
// consecutive failures.
func (r *receiver) deferRoom(room string, err error) {
	l := &r.catchUp
	l.failures[room]++
	wait := minRetryDelay << min(l.failures[room]-1, 16)
	after, _ := httpcall.PauseOf(err)
	l.nextTry[room] = time.Now().Add(max(min(wait, maxRetryDelay), after))
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && e.Code == "M_LIMIT_EXCEEDED" {
		l.pausedUntil = l.nextTry[room] // the limit applies to the whole account
	}
	if l.failures[room] == 1 {
		r.host.ReportError(fmt.Errorf("cannot read room %s, retrying later: %w", room, err))
		return
	}
	r.host.Log().Debug("cannot read room", "room", room, "attempts", l.failures[room], "error", err)
}

// startReaders starts readers for the rooms that are due. It returns a timer for the next due room,
// or nil if no timer is needed.
func (r *receiver) startReaders(ctx context.Context) <-chan time.Time {
	l := &r.catchUp
	var rooms []string
	for room := range r.position.Pending {
		if !l.reading[room] {
			rooms = append(rooms, room)
		}
	}
	if len(rooms) == 0 {
		return nil
	}
	slices.SortFunc(rooms, func(a, b string) int { return cmp.Or(l.nextTry[a].Compare(l.nextTry[b]), cmp.Compare(a, b)) })
	for _, room := range rooms {
		if len(l.reading) >= maxRoomReaders {
			return nil
		}
		due := l.nextTry[room]
		if due.Before(l.pausedUntil) {
			due = l.pausedUntil
		}
		if wait := time.Until(due); wait > 0 {
			return time.After(wait)
		}
		l.reading[room] = true
		from, until := r.position.Pending[room], r.position.Since
		l.wg.Go(func() {
			defer recovery.Handle(r.host.Log(), "matrix room reader", func(*recovery.Panic) { r.cancel() })
			p := roomResult{room: room, until: until}
			if from.Join {
				p.err = r.join(ctx, room)
			} else {
				p.events, p.err = r.roomEvents(ctx, room, timeline{Limited: true, Prev: until}, from)
			}
			select {
			case l.results <- p:
			case <-ctx.Done():
			}
		})
	}
	return nil
}

// onRoomResult submits what a reader found. If more events arrived in the room since, it stays
// pending from the reader's token.
func (r *receiver) onRoomResult(ctx context.Context, p roomResult) error {
	l := &r.catchUp
	missed := l.missed[p.room]
	from, isPending := r.position.Pending[p.room]
	delete(l.reading, p.room)
	switch {
	case !isPending:
		return nil // a full sync covers the room
	case p.err != nil && (ctx.Err() != nil || isFatal(p.err)):
		return receiveError(ctx, p.err)
	case p.err != nil:
		if !from.Join { // a backfill reads to the end of the history when it is retried
			delete(l.missed, p.room)
		}
		r.deferRoom(p.room, p.err)
		return nil
	}
	delete(l.missed, p.room)
	delete(l.failures, p.room)
	delete(l.nextTry, p.room)
	pending := maps.Clone(r.position.Pending)
	delete(pending, p.room)
	switch {
	case missed && from.Join:
		pending[p.room] = position{Since: from.Since}
	case missed:
		pending[p.room] = position{Since: p.until}
	}
	return r.submitAll(ctx, p.events, r.position.Since, pending)
}

// submitAll submits events in order. The last one carries the position after all of them, so that a
// crash in between delivers the remaining events again.
func (r *receiver) submitAll(ctx context.Context, all []inboundEvent, since string, pending map[string]position) error {
	at := r.position
	for i, e := range all {
		if e.eventID != "" {
			at.Room, at.Event = e.Room.Chat, e.eventID
		}
		if i == len(all)-1 {
			at.Since, at.First, at.Pending = since, false, pending
		}
		e.Position = at.String()
		if err := r.submit(ctx, e.Event); err != nil {
			return err
		}
	}
	r.position = position{Since: since, Room: at.Room, Event: at.Event, Pending: pending}
	return nil
}
