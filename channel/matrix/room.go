package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// roomMembers maps the user ids of a room's members to display names.
type roomMembers map[string]string

// loadMembers returns the members of a room. It fetches them once; membership events keep the cache
// current.
func (c *connection) loadMembers(ctx context.Context, room string) (roomMembers, error) {
	if known := c.cachedMembers(room); known != nil {
		return known, nil
	}
	var in struct {
		Joined map[string]struct {
			Name *string `json:"display_name"`
		} `json:"joined"`
	}
	err := c.observedCall(ctx, request{op: "list room members", method: http.MethodGet,
		path: []string{"rooms", room, "joined_members"}}, &in, callTimeout)
	if isRoomRefusal(err) {
		return nil, nil // the bot has left the room
	}
	if err != nil {
		return nil, err
	}
	all := roomMembers{}
	for id, one := range in.Joined {
		all[id] = ""
		if one.Name != nil {
			all[id] = *one.Name
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roomMembers[room] = all
	return all, nil
}

// cachedMembers returns the cached members of a room, or nil. The room's reader owns the map.
func (c *connection) cachedMembers(room string) roomMembers {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.roomMembers[room]
}

// applyMember applies a membership event to the cache.
func (c *connection) applyMember(room string, e *event) {
	known := c.cachedMembers(room)
	if known == nil || e.StateKey == nil {
		return
	}
	if m := e.memberContent(); m.Membership == membershipJoin {
		known[*e.StateKey] = m.Name
	} else {
		delete(known, *e.StateKey)
	}
}

// chatRoom returns a room of these members. Two members form a private room; with unknown members
// it counts as a group.
func (p roomMembers) chatRoom(id, topic string) chat.Room {
	return chat.Room{Chat: id, Topic: topic, Group: p == nil || len(p) > 2}
}

// chatUser returns the user with this id.
func (p roomMembers) chatUser(id string) chat.User {
	if name := p[id]; name != "" {
		return chat.User{ID: id, Name: name}
	}
	return chat.User{ID: id, Name: localpart(id)}
}

// invite converts an invitation of the bot into an event.
func (r *receiver) invite(room string, raw json.RawMessage) (chat.Event, bool) {
	var e event
	if json.Unmarshal(raw, &e) != nil || e.Type != typeMember || e.StateKey == nil || *e.StateKey != r.bot.ID ||
		e.Sender == r.bot.ID {
		return chat.Event{}, false
	}
	m := e.memberContent()
	return chat.Event{
		Kind: chat.EventInvited, Key: "invite:" + room, Room: chat.Room{Chat: room, Group: !m.Direct},
		User:   roomMembers{}.chatUser(e.Sender),
		Accept: func(ctx context.Context) error { return r.accept(ctx, room) },
	}, m.Membership == membershipInvite
}

// accept joins a room. If that fails or takes long, the join continues in the background so that it
// does not delay other rooms.
func (r *receiver) accept(ctx context.Context, room string) error {
	soon, cancel := context.WithTimeout(ctx, inlineTimeout)
	defer cancel()
	err := r.join(soon, room)
	if err == nil || ctx.Err() != nil || isFatal(err) {
		if err != nil {
			return receiveError(ctx, err)
		}
		return nil
	}
	r.deferRoom(room, err)
	r.catchUp.joining[room] = true
	return nil
}

// join joins a room. A refusal is reported and not retried.
func (r *receiver) join(ctx context.Context, room string) error {
	err := r.observedCall(ctx, request{op: "join room", method: http.MethodPost, path: []string{"rooms", room, "join"},
		body: struct{}{}}, nil, callTimeout)
	if isRoomRefusal(err) {
		r.host.ReportError(err)
		return nil
	}
	return err
}

// isJoined reports whether the bot is a member of a room.
func (c *connection) isJoined(ctx context.Context, room string) (bool, error) {
	var m member
	err := c.client.call(ctx, request{op: "check room membership", method: http.MethodGet,
		path: []string{"rooms", room, "state", typeMember, c.bot.ID}}, &m, callTimeout)
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && (e.Status == http.StatusForbidden ||
		e.Status == http.StatusNotFound) {
		return false, nil
	}
	return m.Membership == membershipJoin, err
}

// recordThread remembers the thread of an event, because a redaction does not contain it.
func (c *connection) recordThread(id, topic string) {
	const most = 1000
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.threads[id]; known || topic == "" {
		return
	}
	c.threads[id] = topic
	c.threadOrder = append(c.threadOrder, id)
	if len(c.threadOrder) > most {
		delete(c.threads, c.threadOrder[0])
		c.threadOrder = c.threadOrder[1:]
	}
}

// cachedThread returns the thread of an event, or "" if it is unknown.
func (c *connection) cachedThread(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.threads[id]
}
