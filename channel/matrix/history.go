package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"mailroom"
	"mailroom/channel/chat"
)

const (
	pageSize = 100
	// maxBackfill is how many events of a room are read that an answer has left out.
	maxBackfill = 1000
	maxPages    = 2 * maxBackfill / pageSize // some of which may have few events
	// maxInitialAge is how far back what was said is read without a place to begin from.
	maxInitialAge = 24 * time.Hour
	// maxFindMessages is how many of the bot's last messages in a room are looked through.
	maxFindMessages = 300
)

// historyPage is a part of a room's history, the latest first.
type historyPage struct {
	Chunk []json.RawMessage `json:"chunk"`
	End   string            `json:"end"` // to go on from; "" if there is no more
}

// historyPage reads one. from is "" for the end of the history.
func (c *connection) fetchPage(ctx context.Context, room, from, to, filter string, ask func(context.Context, request, any, time.Duration) error) (p historyPage, err error) {
	q := url.Values{"dir": {"b"}, "limit": {strconv.Itoa(pageSize)}, "filter": {filter}}
	for name, place := range map[string]string{"from": from, "to": to} {
		if place != "" {
			q.Set(name, place)
		}
	}
	err = ask(ctx, request{op: "read the history of a room", method: http.MethodGet, path: []string{"rooms", room, "messages"}, query: q}, &p, callTimeout)
	return p, err
}

// backfill are the events of a room since the place that it was received to, with those
// that the timeline leaves out. Of a room that the bot was invited to they are those
// since then, which may be from before that place.
func (r *receiver) backfill(ctx context.Context, room string, t timeline, at position) ([]event, error) {
	events := r.decodeEvents(t.Events)
	from, to := t.Prev, at.Since
	if !t.Limited {
		from = ""
	}
	for pages := 0; ; pages++ {
		begin := r.firstNew(events, at)
		if begin < 0 && to != "" && r.hasAcceptedInvite(events) {
			events, from, to = r.decodeEvents(t.Events), t.Prev, ""
		}
		switch {
		case begin >= 0:
			return events[begin:], nil
		case from == "":
			return events, nil
		case len(events) >= maxBackfill || pages >= maxPages:
			r.host.ReportError(fmt.Errorf("more happened in %s than is read back (%d events): the earlier part of it is left out", room, len(events)))
			return events, nil
		}
		p, err := r.fetchPage(ctx, room, from, to, "{"+eventTypes+"}", r.observedCall)
		if isRoomRefusal(err) {
			return events, nil // it is not there any more
		}
		if err != nil {
			return nil, err
		}
		slices.Reverse(p.Chunk)
		events = append(r.decodeEvents(p.Chunk), events...)
		if p.End == from {
			p.End = ""
		}
		from = p.End
	}
}

// hasAcceptedInvite reports whether among some events the bot came in that was invited.
func (r *receiver) hasAcceptedInvite(events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool {
		before := e.Unsigned.Before
		return e.Type == typeMember && e.StateKey != nil && *e.StateKey == r.bot.ID && before != nil && before.Membership == membershipInvite
	})
}

// decodeEvents are events that can be read.
func (r *receiver) decodeEvents(raw []json.RawMessage) []event {
	var all []event
	for _, one := range raw {
		var e event
		if err := json.Unmarshal(one, &e); err != nil || e.ID == "" || e.Sender == "" {
			r.host.Log().Warn("an event is not understood and left out", "event", e.ID, "error", err)
			continue
		}
		all = append(all, e)
	}
	return all
}

// firstNew is the first of some events that is to be received, len(events) if none is,
// and -1 if others before them may be. What was said before the bot was invited, or
// came in by itself, is not to it.
func (r *receiver) firstNew(events []event, at position) int {
	oldest := time.Now().Add(-maxInitialAge).UnixMilli()
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		switch {
		case e.isJoinOf(r.bot.ID):
			return i + 1
		case at.Event != "" && e.ID == at.Event:
			return i + 1
		case at.Since != "":
		case e.Timestamp < oldest:
			return i + 1
		case at.First && e.Sender == r.bot.ID && e.Type == typeMessage:
			return i + 1 // somebody has spoken for the bot, and has read what was before
		}
	}
	return -1
}

// fetchEvent reads one event; false if the homeserver does not know it, or does not show
// it.
func (c *connection) fetchEvent(ctx context.Context, room, id string) (e event, found bool, err error) {
	err = c.observedCall(ctx, request{op: "read an event", method: http.MethodGet, path: []string{"rooms", room, "event", id}}, &e, callTimeout)
	if isRoomRefusal(err) {
		return event{}, false, nil
	}
	return e, err == nil, err
}

// Find implements [chat.Platform]: it looks for the key in what the bot has said last.
func (c *connection) Find(ctx context.Context, to chat.Room, key string, _ chat.Message) (id string, found bool, err error) {
	filter, err := json.Marshal(map[string]any{"senders": []string{c.bot.ID}, "types": []string{typeMessage}})
	if err != nil {
		return "", false, fmt.Errorf("make a filter: %w", err)
	}
	from, seen := "", 0
	for range maxFindMessages / pageSize * 2 {
		p, err := c.fetchPage(ctx, to.Chat, from, "", string(filter), c.client.call)
		if err != nil {
			return "", false, c.findError(ctx, to, err)
		}
		for _, raw := range p.Chunk {
			var e event
			if json.Unmarshal(raw, &e) != nil || e.Sender != c.bot.ID || e.Type != typeMessage {
				continue
			}
			seen++
			var said content
			if json.Unmarshal(e.Content, &said) == nil && said.Key == key {
				return e.ID, true, nil
			}
		}
		if p.End == "" || p.End == from {
			return "", false, nil
		}
		if from = p.End; seen >= maxFindMessages {
			break
		}
	}
	return "", false, chat.ErrNoHistory
}

// findError is the error of a history that could not be read. Nobody knows then, unless
// it says that nothing is taken there.
func (c *connection) findError(ctx context.Context, to chat.Room, err error) error {
	err = c.sendError(ctx, to, err)
	if errors.Is(err, chat.ErrGone) || mailroom.AsFailure(err).Class != mailroom.ClassPermanent {
		return err
	}
	return chat.ErrNoHistory
}
