package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"mailroom/channel/chat"
)

// position is where receiving goes on. An event that was taken shows that the
// homeserver still has the history that Since is a place of: one that was set back
// would wait at a place that it has not reached.
type position struct {
	Since string `json:"since,omitempty"` // "": from what the history has
	Room  string `json:"room,omitempty"`  // of Event
	Event string `json:"event,omitempty"` // the last one that was taken
	First bool   `json:"first,omitempty"` // nothing was ever taken whole
}

// readPosition reads one as it was saved. What cannot be read is no place.
func readPosition(saved string) (p position) {
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

// synced is an answer of /sync. Only what is used of it is read.
type synced struct {
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
	hand chat.Take
	at   position
}

// Receive implements [chat.Platform].
func (c *connection) Receive(ctx context.Context, saved string, take chat.Take) error {
	ctx, done := c.within(ctx)
	defer done()
	r := &receiver{connection: c, hand: take, at: readPosition(saved)}
	if err := r.known(ctx); err != nil {
		return over(ctx, err)
	}
	wait := time.Duration(0) // the first poll only proves that it is answered
	for {
		asked := time.Now()
		s, err := r.poll(ctx, wait)
		if err != nil {
			return over(ctx, err)
		}
		n, err := r.take(ctx, s)
		if err != nil {
			return err
		}
		// A server that answers at once with nothing must not be asked at once again.
		if pause := min(wait/4, time.Second) - time.Since(asked); n == 0 && pause > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		}
		wait = c.options.Poll
	}
}

// over is why receiving ends with the error of a call.
func over(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return trouble(err)
}

// known makes sure that the homeserver has the history that the position is of, and
// begins anew if not.
func (r *receiver) known(ctx context.Context) error {
	if r.at.Event == "" {
		return nil
	}
	_, found, err := r.event(ctx, r.at.Room, r.at.Event)
	if err == nil && !found {
		r.link.Log().Warn("the homeserver does not know what was received last: what there is, is read anew", "room", r.at.Room, "event", r.at.Event)
		r.at = position{}
	}
	return err
}

// poll asks once what has happened. A place that the homeserver does not know is
// given up.
func (r *receiver) poll(ctx context.Context, wait time.Duration) (s synced, err error) {
	q := url.Values{"filter": {syncFilter}, "set_presence": {"offline"}, "timeout": {strconv.FormatInt(wait.Milliseconds(), 10)}}
	if r.at.Since != "" {
		q.Set("since", r.at.Since)
	}
	// The channel's evidence is stale before this has passed.
	err = r.hear(ctx, request{what: "receive", method: http.MethodGet, path: []string{"sync"}, query: q}, &s, wait+2*patience)
	if e, ok := errors.AsType[*refused](err); ok && r.at.Since != "" && e.code == http.StatusBadRequest {
		r.link.Log().Warn("the homeserver does not know the place that was received to: what there is, is read anew", "error", err)
		r.at = position{}
		return r.poll(ctx, wait)
	}
	if err == nil && s.Next == "" {
		err = &lost{what: "receive", why: "the answer names no place to go on from", written: true}
	}
	return s, err
}

// syncFilter leaves out what is of no use. All that changes who is in a room is in the
// timeline.
const syncFilter = `{"presence":{"types":[],"not_types":["*"]},"account_data":{"types":[],"not_types":["*"]},"room":{` +
	`"account_data":{"types":[],"not_types":["*"]},"ephemeral":{"types":[],"not_types":["*"]},"state":{"types":[],"not_types":["*"]},` +
	`"timeline":{"limit":50,` + eventTypes + `}}}`

const eventTypes = `"types":["m.room.message","m.room.encrypted","m.room.redaction","m.room.member"]`

// take hands all of an answer in, and returns how many events that were. The last one
// has the place behind all of them; a crash before that has the others come again.
func (r *receiver) take(ctx context.Context, s synced) (int, error) {
	all := r.invites(s)
	for _, room := range slices.Sorted(maps.Keys(s.Rooms.Join)) {
		events, err := r.whole(ctx, room, s.Rooms.Join[room].Timeline)
		if err != nil {
			return 0, over(ctx, err)
		}
		for _, e := range events {
			said, ok, err := r.read(ctx, room, e)
			if err != nil {
				return 0, over(ctx, err)
			}
			if ok {
				all = append(all, said)
			}
		}
	}
	at := r.at
	for i, e := range all {
		if e.id != "" {
			at.Room, at.Event = e.Room.Chat, e.id
		}
		if i == len(all)-1 {
			at.Since, at.First = s.Next, false
		}
		e.Position = at.String()
		if err := r.hand(ctx, e.Event); err != nil {
			return 0, err
		}
	}
	r.at = position{Since: s.Next, Room: at.Room, Event: at.Event}
	return len(all), nil
}

// invites are those that wait for an answer.
func (r *receiver) invites(s synced) (all []taken) {
	for _, room := range slices.Sorted(maps.Keys(s.Rooms.Invite)) {
		for _, raw := range s.Rooms.Invite[room].State.Events {
			if e, ok := r.invite(room, raw); ok {
				all = append(all, taken{Event: e})
			}
		}
	}
	return all
}

// taken is an event with the homeserver's id of it.
type taken struct {
	chat.Event
	id string // "" if it has none
}
