package matrixtest

import (
	"fmt"
	"strconv"
	"time"
)

// messages returns a page of a room's history, backwards from a token.
func (h *Homeserver) messages(c *call) (any, *apiError) {
	r, q := h.rooms[c.PathValue("room")], c.URL.Query()
	if r == nil {
		return nil, newError(403, "M_FORBIDDEN", "room does not exist")
	}
	var want filter
	if refuse := decodeQuery(q, "filter", &want); refuse != nil {
		return nil, refuse
	}
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || q.Get("dir") != "b" {
		return nil, newError(400, "M_MISSING_PARAM", "Bad or missing dir or limit")
	}
	from, to := h.events, 0
	for name, into := range map[string]*int{"from": &from, "to": &to} {
		token := q.Get(name)
		if token == "" {
			continue
		}
		n, ok := parseToken(token, "t")
		if !ok {
			n, ok = parseToken(token, "s")
		}
		if !ok {
			return nil, newError(400, "M_INVALID_PARAM", "Invalid %s parameter", name)
		}
		*into = n
	}
	seen, out := r.visible(c.session.user), map[string]any{"start": fmt.Sprintf("t%d", from)}
	if seen == nil {
		return nil, newError(403, "M_FORBIDDEN", "User is not in the room")
	}
	chunk := []any{}
	for i := len(seen) - 1; i >= 0; i-- {
		e := seen[i]
		if e.position > from || !want.matches(e) {
			continue
		}
		if e.position <= to {
			break
		}
		if len(chunk) == limit {
			out["end"] = fmt.Sprintf("t%d", e.position)
			break
		}
		chunk = append(chunk, e.view(c.session))
	}
	out["chunk"] = chunk
	return out, nil
}

// sync responds when something has changed since a token, or after the timeout.
func (h *Homeserver) sync(c *call) (any, *apiError) {
	q := c.URL.Query()
	var want struct {
		Room struct {
			Timeline filter `json:"timeline"`
		} `json:"room"`
	}
	if refuse := decodeQuery(q, "filter", &want); refuse != nil {
		return nil, refuse
	}
	since := -1
	if token := q.Get("since"); token != "" {
		n, ok := parseToken(token, "s")
		if !ok {
			return nil, newError(400, "M_INVALID_PARAM", "malformed sync token")
		}
		since = n
	}
	ms, _ := strconv.Atoi(q.Get("timeout")) // 0 if missing
	late := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer late.Stop()
	for over := ms == 0; ; {
		rooms, something := h.changesSince(c.session, since, want.Room.Timeline)
		if something || over || since < 0 {
			return map[string]any{"next_batch": fmt.Sprintf("s%d", max(h.events, since)), "rooms": rooms}, nil
		}
		over = !h.Wait(c.Context(), late.C)
		if _, refuse := h.authenticate(c.Request); refuse != nil {
			return nil, refuse
		}
	}
}

// changesSince returns the changes in a user's rooms and whether there are any.
func (h *Homeserver) changesSince(who session, since int, want filter) (any, bool) {
	join, invite, leave, something := map[string]any{}, map[string]any{}, map[string]any{}, false
	for id, r := range h.rooms {
		me := r.state[[2]string{"m.room.member", who.user}]
		switch {
		case me == nil:
		case r.membership(who.user) == "invite" && me.position > since:
			something = true
			invite[id] = map[string]any{"invite_state": map[string]any{"events": []any{map[string]any{
				"type": "m.room.member", "sender": me.body["sender"], "state_key": who.user, "content": me.content(),
			}}}}
		case r.membership(who.user) == "join":
			before := since
			if me.position > since { // a newly joined room includes its history
				before = -1
			}
			news := false
			for _, e := range r.events {
				news = news || e.position > since
			}
			if something = something || news; news || since < 0 {
				join[id] = map[string]any{"timeline": r.timeline(who, before, want)}
			}
		case me.position > since:
			something = true
			leave[id] = struct{}{}
		}
	}
	return map[string]any{"join": join, "invite": invite, "leave": leave}, something
}

// timeline returns the latest events of a room since a position.
func (r *room) timeline(to session, since int, want filter) any {
	var all []*storedEvent
	for _, e := range r.events {
		if e.position > since && want.matches(e) {
			all = append(all, e)
		}
	}
	limit := want.Limit
	if limit == 0 {
		limit = 20
	}
	prev, limited := since, false
	if n := len(all) - limit; n > 0 {
		prev, limited, all = all[n-1].position, true, all[n:]
	}
	events := []any{}
	for _, e := range all {
		events = append(events, e.view(to))
	}
	return map[string]any{"events": events, "limited": limited, "prev_batch": fmt.Sprintf("t%d", max(prev, 0))}
}
