package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/recovery"
)

// position is the saved position of the receiver. Event proves that the homeserver still has the
// history that Since refers to: after a restore from a backup, a poll would wait for a token that
// the homeserver has not reached yet.
type position struct {
	Since string `json:"since,omitempty"` // token of the homeserver to read on from; "": the start of the history
	Room  string `json:"room,omitempty"`  // room of Event
	Event string `json:"event,omitempty"` // last submitted event
	First bool   `json:"first,omitempty"` // no sync response was ever submitted completely
	// Pending maps each room with missing events to the position up to which it was read.
	Pending map[string]position `json:"behind,omitempty"`
	// only in Pending: the bot accepted an invitation and has not joined yet
	Join bool `json:"join,omitempty"`
}

// parsePosition parses a saved position. An invalid one yields the zero position.
func parsePosition(saved string) (p position) {
	if saved == "" || json.Unmarshal([]byte(saved), &p) != nil {
		return position{First: saved == ""}
	}
	return p
}

func (p position) String() string {
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(raw)
}

// syncResponse is a response of /sync with the fields that the adapter uses.
type syncResponse struct {
	Next  string `json:"next_batch"`
	Rooms struct {
		Join map[string]struct {
			Timeline timeline `json:"timeline"`
		} `json:"join"`
		Invite map[string]struct {
			State struct {
				Events []json.RawMessage `json:"events"`
			} `json:"invite_state"`
		} `json:"invite"`
	} `json:"rooms"`
}

type timeline struct {
	Events  []json.RawMessage `json:"events"`
	Limited bool              `json:"limited"` // older events are missing
	Prev    string            `json:"prev_batch"`
}

// receiver is the state of one call of Receive.
type receiver struct {
	*connection
	submit   chat.EventHandler
	position position
	catchUp  catchUp
}

// Receive implements [chat.Platform].
func (c *connection) Receive(ctx context.Context, saved string, submit chat.EventHandler) error {
	ctx, release := httpcall.BindContext(ctx, c.ctx)
	r := &receiver{connection: c, submit: submit, position: parsePosition(saved), catchUp: newCatchUp()}
	defer r.catchUp.wg.Wait()
	defer release()
	if err := r.checkPosition(ctx); err != nil {
		return receiveError(ctx, err)
	}
	return r.loop(ctx)
}

// pollResult is the outcome of one poll.
type pollResult struct {
	syncResponse
	wait         time.Duration // the poll's timeout
	pause        time.Duration // pause before the next poll, if this one brought no events
	unknownSince bool          // the homeserver does not know the sync token
	err          error
}

// loop processes sync responses and the results of room readers.
func (r *receiver) loop(ctx context.Context) error {
	results := make(chan pollResult)
	poll := func(wait, pause time.Duration) {
		since := r.position.Since
		r.catchUp.wg.Go(func() {
			defer recovery.Handle(r.host.Log(), "matrix poll", func(*recovery.Panic) { r.cancel() })
			a := r.poll(ctx, since, wait, pause)
			select {
			case results <- a:
			case <-ctx.Done():
			}
		})
	}
	poll(0, 0) // returns at once and proves that the connection works
	for {
		due := r.startReaders(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-results:
			switch {
			case a.unknownSince:
				r.host.Log().Warn("homeserver does not know the saved position; reading all rooms again", "error", a.err)
				r.position = position{}
				poll(a.wait, 0)
				continue
			case a.err != nil:
				return receiveError(ctx, a.err)
			}
			n, err := r.onSync(ctx, a.syncResponse)
			if err != nil {
				return err
			}
			if n > 0 {
				a.pause = 0
			}
			poll(r.options.Poll, a.pause)
		case p := <-r.catchUp.results:
			if err := r.onRoomResult(ctx, p); err != nil {
				return err
			}
		case <-due:
		}
	}
}

// receiveError returns the error that Receive ends with after a failed call.
func receiveError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return connectionError(err)
}

// checkPosition verifies that the homeserver still has the last submitted event. Otherwise it
// resets the position.
func (r *receiver) checkPosition(ctx context.Context) error {
	if r.position.Event == "" {
		return nil
	}
	_, found, err := r.fetchEvent(ctx, r.position.Room, r.position.Event)
	switch {
	case err == nil && !found:
		r.host.Log().Warn("homeserver does not know the last received event; reading all rooms again", "room",
			r.position.Room, "event", r.position.Event)
		r.position = position{}
	case err != nil && ctx.Err() == nil && isRoomError(err):
		r.host.ReportError(fmt.Errorf("cannot check whether the homeserver lost events since the last connection: %w", err))
		return nil // one room must not block the others; the next poll shows whether the homeserver responds
	}
	return err
}

// isRoomError reports whether an error may concern one room only: the homeserver was reached.
func isRoomError(err error) bool {
	if l, ok := errors.AsType[*httpcall.TransportError](err); ok {
		return l.MaybeSent
	}
	return !isFatal(err) && !isRateLimited(err)
}

// isRateLimited reports whether the account exceeded a rate limit.
func isRateLimited(err error) bool {
	e, ok := errors.AsType[*httpcall.Refusal](err)
	return ok && (e.Status == http.StatusTooManyRequests || e.Code == "M_LIMIT_EXCEEDED")
}

// poll waits for pause and makes one /sync call.
func (r *receiver) poll(ctx context.Context, since string, wait, pause time.Duration) (a pollResult) {
	a.wait = wait
	select {
	case <-ctx.Done():
		a.err = ctx.Err()
		return a
	case <-time.After(pause):
	}
	asked := time.Now()
	q := url.Values{"filter": {syncFilter}, "set_presence": {"offline"},
		"timeout": {strconv.FormatInt(wait.Milliseconds(), 10)}}
	if since != "" {
		q.Set("since", since)
	}
	// The idle timeout of the channel expires before this deadline.
	a.err = r.observedCall(ctx, request{op: "receive", method: http.MethodGet, path: []string{"sync"}, query: q},
		&a.syncResponse, wait+2*pollGrace)
	if e, ok := errors.AsType[*httpcall.Refusal](a.err); ok && since != "" && e.Status == http.StatusBadRequest {
		a.unknownSince = true
	}
	if a.err == nil && a.Next == "" {
		a.err = &httpcall.TransportError{Op: "receive", Reason: "response contains no next_batch token", MaybeSent: true}
	}
	// A server that responds at once without events must not be results in a tight loop.
	a.pause = max(min(wait/4, time.Second)-time.Since(asked), 0)
	return a
}

// syncFilter excludes what the adapter does not use. The timeline contains every membership change.
const syncFilter = `{"presence":{"types":[],"not_types":["*"]},"account_data":{"types":[],"not_types":["*"]},"room":{` +
	`"account_data":{"types":[],"not_types":["*"]},"ephemeral":{"types":[],"not_types":["*"]},"state":{"types":[],"not_types":["*"]},` +
	`"timeline":{"limit":50,` + eventTypes + `}}}`

const eventTypes = `"types":["m.room.message","m.room.encrypted","m.room.redaction","m.room.member",` +
	`"m.sticker","m.poll.start","org.matrix.msc3381.poll.start"]`

// onSync submits the events of a sync response and returns their number. A room that cannot be read
// in time becomes pending, and none of its events are submitted until it is.
func (r *receiver) onSync(ctx context.Context, s syncResponse) (int, error) {
	all := r.invites(s)
	from := r.position
	from.Pending = nil
	pending := maps.Clone(r.position.Pending)
	soon, cancel := context.WithTimeout(ctx, inlineTimeout)
	defer cancel()
	for _, room := range slices.Sorted(maps.Keys(s.Rooms.Join)) {
		if p, ok := pending[room]; ok {
			if r.catchUp.reading[room] || p.Join {
				r.catchUp.missed[room] = true
			}
			continue
		}
		roomCtx := soon
		if len(pending) >= maxPendingRooms {
			roomCtx = ctx
		}
		events, err := r.roomEvents(roomCtx, room, s.Rooms.Join[room].Timeline, from)
		switch {
		case err == nil:
			all = append(all, events...)
			continue
		case ctx.Err() != nil, isFatal(err), len(pending) >= maxPendingRooms:
			return 0, receiveError(ctx, err)
		}
		if pending == nil {
			pending = map[string]position{}
		}
		pending[room] = from
		r.deferRoom(room, err)
	}
	if err := r.submitAll(ctx, all, s.Next, pending); err != nil {
		return 0, err
	}
	for room := range r.catchUp.joining {
		if r.position.Pending == nil {
			r.position.Pending = map[string]position{}
		}
		r.position.Pending[room] = position{Since: from.Since, Join: true}
	}
	clear(r.catchUp.joining)
	return len(all), nil
}

// invites returns the pending invitations.
func (r *receiver) invites(s syncResponse) (all []inboundEvent) {
	for _, room := range slices.Sorted(maps.Keys(s.Rooms.Invite)) {
		for _, raw := range s.Rooms.Invite[room].State.Events {
			if e, ok := r.invite(room, raw); ok {
				all = append(all, inboundEvent{Event: e})
			}
		}
	}
	return all
}

// inboundEvent is a chat event with its Matrix event id.
type inboundEvent struct {
	chat.Event
	eventID string // id of the event; "" for an invitation
}
