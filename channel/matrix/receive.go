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
	"mailroom/internal/recovery"
)

// position is where receiving goes on. An event that was taken shows that the
// homeserver still has the history that Since is a place of: one that was set back
// would wait at a place that it has not reached.
type position struct {
	Since string `json:"since,omitempty"` // "": from what the history has
	Room  string `json:"room,omitempty"`  // of Event
	Event string `json:"event,omitempty"` // the last one that was taken
	First bool   `json:"first,omitempty"` // nothing was ever taken whole
	// Pending maps a room to the place up to which its events were received.
	Pending map[string]position `json:"behind,omitempty"`
	Join    bool                `json:"join,omitempty"` // of Behind: the bot accepted an invitation and is not there yet
}

// parsePosition reads one as it was saved. What cannot be read is no place.
func parsePosition(saved string) (p position) {
	if saved == "" || json.Unmarshal([]byte(saved), &p) != nil {
		return position{First: saved == ""}
	}
	return p
}

func (p position) String() string {
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is text
	}
	return string(raw)
}

// syncResponse is an answer of /sync. Only what is used of it is read.
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
	Limited bool              `json:"limited"` // there are others before them
	Prev    string            `json:"prev_batch"`
}

// receiver is one time of receiving.
type receiver struct {
	*connection
	submit   chat.EventHandler
	position position
	catchUp  catchUp
}

// Receive implements [chat.Platform].
func (c *connection) Receive(ctx context.Context, saved string, take chat.EventHandler) error {
	ctx, done := c.bindContext(ctx)
	r := &receiver{connection: c, submit: take, position: parsePosition(saved), catchUp: newCatchUp()}
	defer r.catchUp.wg.Wait()
	defer done()
	if err := r.checkPosition(ctx); err != nil {
		return receiveError(ctx, err)
	}
	return r.loop(ctx)
}

// pollResult is what became of a poll.
type pollResult struct {
	syncResponse
	wait         time.Duration // that it was to have
	pause        time.Duration // after it, if nothing has happened
	unknownSince bool          // the homeserver does not know the place
	err          error
}

// loop takes answers, and what readers bring of rooms that are behind.
func (r *receiver) loop(ctx context.Context) error {
	polled := make(chan pollResult)
	poll := func(wait, pause time.Duration) {
		since := r.position.Since
		r.catchUp.wg.Go(func() {
			defer recovery.Handle(r.host.Log(), "a poll of Matrix", func(*recovery.Panic) { r.cancel() })
			a := r.poll(ctx, since, wait, pause)
			select {
			case polled <- a:
			case <-ctx.Done():
			}
		})
	}
	poll(0, 0) // it only proves that it is answered
	for {
		due := r.startReaders(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-polled:
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

// receiveError is why receiving ends with the error of a call.
func receiveError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return connectionError(err)
}

// checkPosition makes sure that the homeserver has the history that the position is of, and
// begins anew if not.
func (r *receiver) checkPosition(ctx context.Context) error {
	if r.position.Event == "" {
		return nil
	}
	_, found, err := r.fetchEvent(ctx, r.position.Room, r.position.Event)
	switch {
	case err == nil && !found:
		r.host.Log().Warn("homeserver does not know the last received event; reading all rooms again", "room", r.position.Room, "event", r.position.Event)
		r.position = position{}
	case err != nil && ctx.Err() == nil && isRoomError(err):
		r.host.ReportError(fmt.Errorf("it is not known whether the homeserver has what was received last: %w", err))
		return nil // one room keeps no others: the poll that follows tells whether it answers
	}
	return err
}

// isRoomError reports whether an error may concern the room that a call is about, rather than
// the homeserver: it was reached.
func isRoomError(err error) bool {
	if l, ok := errors.AsType[*transportError](err); ok {
		return l.maybeSent
	}
	return !isFatal(err) && !isRateLimited(err)
}

// isRateLimited reports whether the account has asked too often.
func isRateLimited(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && (e.code == http.StatusTooManyRequests || e.errcode == "M_LIMIT_EXCEEDED")
}

// poll waits for a pause and asks once what has happened since a place.
func (r *receiver) poll(ctx context.Context, since string, wait, pause time.Duration) (a pollResult) {
	a.wait = wait
	select {
	case <-ctx.Done():
		a.err = ctx.Err()
		return a
	case <-time.After(pause):
	}
	asked := time.Now()
	q := url.Values{"filter": {syncFilter}, "set_presence": {"offline"}, "timeout": {strconv.FormatInt(wait.Milliseconds(), 10)}}
	if since != "" {
		q.Set("since", since)
	}
	// The channel's evidence is stale before this has passed.
	a.err = r.observedCall(ctx, request{op: "receive", method: http.MethodGet, path: []string{"sync"}, query: q}, &a.syncResponse, wait+2*pollGrace)
	if e, ok := errors.AsType[*apiError](a.err); ok && since != "" && e.code == http.StatusBadRequest {
		a.unknownSince = true
	}
	if a.err == nil && a.Next == "" {
		a.err = &transportError{op: "receive", reason: "the answer names no place to go on from", maybeSent: true}
	}
	// A server that answers at once with nothing must not be asked at once again.
	a.pause = max(min(wait/4, time.Second)-time.Since(asked), 0)
	return a
}

// syncFilter leaves out what is of no use. All that changes who is in a room is in the
// timeline.
const syncFilter = `{"presence":{"types":[],"not_types":["*"]},"account_data":{"types":[],"not_types":["*"]},"room":{` +
	`"account_data":{"types":[],"not_types":["*"]},"ephemeral":{"types":[],"not_types":["*"]},"state":{"types":[],"not_types":["*"]},` +
	`"timeline":{"limit":50,` + eventTypes + `}}}`

const eventTypes = `"types":["m.room.message","m.room.encrypted","m.room.redaction","m.room.member"]`

// onSync hands all of an answer in, and returns how many events that were. A room that
// cannot be read, or not soon, is left behind, and nothing of it is taken until then.
func (r *receiver) onSync(ctx context.Context, s syncResponse) (int, error) {
	all := r.invites(s)
	from := r.position
	from.Pending = nil
	behind := maps.Clone(r.position.Pending)
	soon, cancel := context.WithTimeout(ctx, inlineTimeout)
	defer cancel()
	for _, room := range slices.Sorted(maps.Keys(s.Rooms.Join)) {
		if left, ok := behind[room]; ok {
			if r.catchUp.reading[room] || left.Join {
				r.catchUp.missed[room] = true
			}
			continue
		}
		within := soon
		if len(behind) >= maxPendingRooms {
			within = ctx
		}
		said, err := r.roomEvents(within, room, s.Rooms.Join[room].Timeline, from)
		switch {
		case err == nil:
			all = append(all, said...)
			continue
		case ctx.Err() != nil, isFatal(err), len(behind) >= maxPendingRooms:
			return 0, receiveError(ctx, err)
		}
		if behind == nil {
			behind = map[string]position{}
		}
		behind[room] = from
		r.deferRoom(room, err)
	}
	if err := r.submitAll(ctx, all, s.Next, behind); err != nil {
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

// invites are those that wait for an answer.
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

// inboundEvent is an event with the homeserver's id of it.
type inboundEvent struct {
	chat.Event
	eventID string // "" if it has none
}
