package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"mailroom/channel/chat"
)

// people are who is in a room: their names by their ids.
type people map[string]string

// members are who is in a room. They are asked for once, and then followed.
func (c *connection) members(ctx context.Context, room string) (people, error) {
	if known := c.people(room); known != nil {
		return known, nil
	}
	var in struct {
		Joined map[string]struct {
			Name *string `json:"display_name"`
		} `json:"joined"`
	}
	err := c.hear(ctx, request{what: "ask who is in a room", method: http.MethodGet, path: []string{"rooms", room, "joined_members"}}, &in, callTime)
	if refusedHere(err) {
		return nil, nil // the bot is not there any more
	}
	if err != nil {
		return nil, err
	}
	all := people{}
	for id, one := range in.Joined {
		all[id] = ""
		if one.Name != nil {
			all[id] = *one.Name
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rooms[room] = all
	return all, nil
}

// people are those of a room, nil if they are not known. Who reads the room owns them.
func (c *connection) people(room string) people {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rooms[room]
}

// joins follows who is in a room.
func (c *connection) joins(room string, e *event) {
	known := c.people(room)
	if known == nil || e.StateKey == nil {
		return
	}
	if m := e.member(); m.Membership == joined {
		known[*e.StateKey] = m.Name
	} else {
		delete(known, *e.StateKey)
	}
}

// room is the room of an event. Two are a private room; one whose people are not told
// is a group.
func (p people) room(id, topic string) chat.Room {
	return chat.Room{Chat: id, Topic: topic, Group: p == nil || len(p) > 2}
}

// user is one of them.
func (p people) user(id string) chat.User {
	if name := p[id]; name != "" {
		return chat.User{ID: id, Name: name}
	}
	return chat.User{ID: id, Name: localpart(id)}
}

// invite reads an invitation of the bot out of what a room shows of itself.
func (r *receiver) invite(room string, raw json.RawMessage) (chat.Event, bool) {
	var e event
	if json.Unmarshal(raw, &e) != nil || e.Type != typeMember || e.StateKey == nil || *e.StateKey != r.bot.ID || e.Sender == r.bot.ID {
		return chat.Event{}, false
	}
	m := e.member()
	return chat.Event{
		Kind: chat.EventInvited, Key: "invite:" + room, Room: chat.Room{Chat: room, Group: !m.Direct}, User: people{}.user(e.Sender),
		Accept: func(ctx context.Context) error { return r.accept(ctx, room) },
	}, m.Membership == invited
}

// accept goes into a room. One that takes long, or fails, delays no others: it is joined
// beside them.
func (r *receiver) accept(ctx context.Context, room string) error {
	soon, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	err := r.join(soon, room)
	if err == nil || ctx.Err() != nil || fatal(err) {
		if err != nil {
			return over(ctx, err)
		}
		return nil
	}
	r.leave(room, err)
	r.late.joining[room] = true
	return nil
}

// join goes into a room. One that is not open any more is left alone.
func (r *receiver) join(ctx context.Context, room string) error {
	err := r.hear(ctx, request{what: "go into a room", method: http.MethodPost, path: []string{"rooms", room, "join"}, in: struct{}{}}, nil, callTime)
	if refusedHere(err) {
		r.link.ReportError(err)
		return nil
	}
	return err
}

// inside reports whether the bot is in a room.
func (c *connection) inside(ctx context.Context, room string) (bool, error) {
	var m member
	err := c.client.call(ctx, request{what: "ask whether the bot is in a room", method: http.MethodGet, path: []string{"rooms", room, "state", typeMember, c.bot.ID}}, &m, callTime)
	if e, ok := errors.AsType[*refused](err); ok && (e.code == http.StatusForbidden || e.code == http.StatusNotFound) {
		return false, nil
	}
	return m.Membership == joined, err
}

// remember notes the thread of an event, which a deletion of it does not tell.
func (c *connection) remember(id, topic string) {
	const most = 1000
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.topics[id]; known || topic == "" {
		return
	}
	c.topics[id] = topic
	c.order = append(c.order, id)
	if len(c.order) > most {
		delete(c.topics, c.order[0])
		c.order = c.order[1:]
	}
}

// thread is the one of an event, "" if it is not known.
func (c *connection) thread(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.topics[id]
}
