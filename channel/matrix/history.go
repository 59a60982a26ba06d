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
	// maxBackfill bounds the events read from a room's history to fill a gap.
	maxBackfill = 1000
	maxPages    = 2 * maxBackfill / pageSize // pages may be partly filled
	// maxInitialAge bounds the age of messages read without a saved position.
	maxInitialAge = 24 * time.Hour
	// maxFindMessages bounds how many of the bot's messages in a room Find searches.
	maxFindMessages = 300
)

// historyPage is one page of a room's history, newest event first.
type historyPage struct {
	Chunk []json.RawMessage `json:"chunk"`
	End   string            `json:"end"` // token of the next page; "" on the last one
}

// fetchPage fetches one page of a room's history backwards from a token, or from its end if from is
// "".
func (c *connection) fetchPage(
	ctx context.Context, room, from, to, filter string, ask func(context.Context, request, any, time.Duration) error,
) (p historyPage, err error) {
	q := url.Values{"dir": {"b"}, "limit": {strconv.Itoa(pageSize)}, "filter": {filter}}
	for name, token := range map[string]string{"from": from, "to": to} {
		if token != "" {
			q.Set(name, token)
		}
	}
	err = ask(ctx, request{op: "read room history", method: http.MethodGet, path: []string{"rooms", room, "messages"},
		query: q}, &p, callTimeout)
	return p, err
}

// backfill returns the events of a room since its saved position, including those that a limited
// timeline omits. If the bot accepted an invitation in between, it returns the events since the
// invitation, which may be older than the position.
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
			r.host.ReportError(fmt.Errorf("room %s has more new events than are read back (%d): older ones are skipped", room,
				len(events)))
			return events, nil
		}
		p, err := r.fetchPage(ctx, room, from, to, "{"+eventTypes+"}", r.observedCall)
		if isRoomRefusal(err) {
			return events, nil // the room no longer exists for the bot
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

// hasAcceptedInvite reports whether the events contain the bot's join after an invitation.
func (r *receiver) hasAcceptedInvite(events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool {
		before := e.Unsigned.Before
		return e.Type == typeMember && e.StateKey != nil && *e.StateKey == r.bot.ID && before != nil &&
			before.Membership == membershipInvite
	})
}

// decodeEvents decodes events and logs and drops invalid ones.
func (r *receiver) decodeEvents(raw []json.RawMessage) []event {
	var all []event
	for _, one := range raw {
		var e event
		if err := json.Unmarshal(one, &e); err != nil || e.ID == "" || e.Sender == "" {
			r.host.Log().Warn("invalid Matrix event skipped", "event", e.ID, "error", err)
			continue
		}
		all = append(all, e)
	}
	return all
}

// firstNew returns the index of the first event to deliver, len(events) if all are old, and -1 if
// older events may be new too. Events before the bot was invited, or before it joined by itself,
// are not new.
func (r *receiver) firstNew(events []event, at position) int {
	oldest := time.Now().Add(-maxInitialAge).UnixMilli()
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		switch {
		case e.startsMembership(r.bot.ID):
			return i + 1
		case at.Event != "" && e.ID == at.Event:
			return i + 1
		case at.Since != "":
		case e.Timestamp < oldest:
			return i + 1
		case at.First && e.Sender == r.bot.ID && e.Type == typeMessage:
			return i + 1 // a person used the bot's account and has read the earlier messages
		}
	}
	return -1
}

// fetchEvent fetches one event. found is false if the homeserver does not have it or denies access.
func (c *connection) fetchEvent(ctx context.Context, room, id string) (e event, found bool, err error) {
	err = c.observedCall(ctx, request{op: "read event", method: http.MethodGet,
		path: []string{"rooms", room, "event", id}}, &e, callTimeout)
	if isRoomRefusal(err) {
		return event{}, false, nil
	}
	return e, err == nil, err
}

// Find implements [chat.Platform]. It searches the bot's latest messages for the key.
func (c *connection) Find(
	ctx context.Context, to chat.Room, key string, _ chat.Message,
) (id string, found bool, err error) {
	filter, err := json.Marshal(map[string]any{"senders": []string{c.bot.ID}, "types": []string{typeMessage}})
	if err != nil {
		return "", false, fmt.Errorf("encode filter: %w", err)
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
			var msg content
			if json.Unmarshal(e.Content, &msg) == nil && msg.Key == key {
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

// findError classifies an error of Find. A refusal leaves the outcome unknown, unless the room is
// gone.
func (c *connection) findError(ctx context.Context, to chat.Room, err error) error {
	err = c.sendError(ctx, to, err)
	if errors.Is(err, chat.ErrGone) || mailroom.AsFailure(err).Class != mailroom.ClassPermanent {
		return err
	}
	return chat.ErrNoHistory
}
