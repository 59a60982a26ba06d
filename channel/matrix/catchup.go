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
	// inlineTimeout is how long the rooms of one answer may ask the homeserver for what they
	// need. A room that needs longer is read beside the others.
	inlineTimeout = 2 * time.Second
	// maxPendingRooms bounds the rooms that are behind, which the position names.
	maxPendingRooms = 100
	maxRoomReaders  = 4 // rooms that are read at once
	// minRetryDelay and lastRetry are the pauses after a room that could not be read.
	minRetryDelay = 200 * time.Millisecond
	maxRetryDelay = time.Minute
)

// catchUp reads rooms beside the loop of Receive, which owns all of it but told. The rooms
// themselves are in the position: what happened in them since a place was not received.
type catchUp struct {
	results     chan roomResult
	reading     map[string]bool // rooms that are being read
	missed      map[string]bool // of those: more happened in them since
	failures    map[string]int  // that failed in a row
	nextTry     map[string]time.Time
	pausedUntil time.Time // no room is read before
	joining     map[string]bool
	wg          sync.WaitGroup
}

// roomResult is what a reader brings of a room: what happened until a place.
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

// roomEvents are what happened in a room, as the bot reads it.
func (r *receiver) roomEvents(ctx context.Context, room string, t timeline, from position) (all []inboundEvent, err error) {
	events, err := r.backfill(ctx, room, t, from)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		said, ok, err := r.toEvent(ctx, room, e)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, said)
		}
	}
	return all, nil
}

// deferRoom notes that a room could not be read. Only the first failure in a row is shown.
func (r *receiver) deferRoom(room string, err error) {
	l := &r.catchUp
	l.failures[room]++
	wait := minRetryDelay << min(l.failures[room]-1, 16)
	l.nextTry[room] = time.Now().Add(max(min(wait, maxRetryDelay), retryAfter(err)))
	if e, ok := errors.AsType[*apiError](err); ok && e.errcode == "M_LIMIT_EXCEEDED" {
		l.pausedUntil = l.nextTry[room] // it is of the account
	}
	if l.failures[room] == 1 {
		r.host.ReportError(fmt.Errorf("%s is read later, and its events wait: %w", room, err))
		return
	}
	r.host.Log().Debug("a room cannot be read", "room", room, "attempts", l.failures[room], "error", err)
}

// startReaders starts reading the rooms that are due. It returns when the next one is; nil if
// a reader or nothing is waited for.
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
			defer recovery.Handle(r.host.Log(), "a reader of a room of Matrix", func(*recovery.Panic) { r.cancel() })
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

// onRoomResult hands in what a reader has brought. What happened in the room since then is
// read next.
func (r *receiver) onRoomResult(ctx context.Context, p roomResult) error {
	l := &r.catchUp
	missed := l.missed[p.room]
	from, left := r.position.Pending[p.room]
	delete(l.reading, p.room)
	switch {
	case !left:
		return nil // the whole room is read again
	case p.err != nil && (ctx.Err() != nil || isFatal(p.err)):
		return receiveError(ctx, p.err)
	case p.err != nil:
		if !from.Join { // a history is read to its end the next time
			delete(l.missed, p.room)
		}
		r.deferRoom(p.room, p.err)
		return nil
	}
	delete(l.missed, p.room)
	delete(l.failures, p.room)
	delete(l.nextTry, p.room)
	behind := maps.Clone(r.position.Pending)
	delete(behind, p.room)
	switch {
	case missed && from.Join:
		behind[p.room] = position{Since: from.Since}
	case missed:
		behind[p.room] = position{Since: p.until}
	}
	return r.submitAll(ctx, p.events, r.position.Since, behind)
}

// submitAll hands events in. The last one has the place behind all of them; a crash before
// that has the others come again.
func (r *receiver) submitAll(ctx context.Context, all []inboundEvent, since string, behind map[string]position) error {
	at := r.position
	for i, e := range all {
		if e.eventID != "" {
			at.Room, at.Event = e.Room.Chat, e.eventID
		}
		if i == len(all)-1 {
			at.Since, at.First, at.Pending = since, false, behind
		}
		e.Position = at.String()
		if err := r.submit(ctx, e.Event); err != nil {
			return err
		}
	}
	r.position = position{Since: since, Room: at.Room, Event: at.Event, Pending: behind}
	return nil
}
