package discord

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// Discord waits three seconds for the answer to a button press and then shows a failure. The
// press may have to wait behind an event that takes longer. So a press that is not answered in
// half of that time gets a deferred response, which shows nothing, and is answered once it has
// been handled.

const (
	pressKey      = "tap:"
	deferAfter    = 1500 * time.Millisecond
	deferInterval = 250 * time.Millisecond
	// interactionTTL is how long a deferred press can be answered.
	interactionTTL = 15 * time.Minute
)

// Types of interaction responses.
const (
	responseMessage  = 4
	responseDeferred = 6
)

// pendingPress is a button press without an answer. Its token is never logged or saved.
type pendingPress struct {
	app, token string
	at         time.Time     // time of arrival
	deferred   chan struct{} // closed after the deferred response; nil if none was started
}

// trackPress records a press as soon as it arrives, and drops those that can no longer be
// answered.
func (c *connection) trackPress(f *frame, now time.Time) {
	var i interaction
	if err := json.Unmarshal(f.Data, &i); err != nil || i.Type != interactionComponent {
		return // handleEvent logs it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, t := range c.interactions {
		if now.Sub(t.at) > interactionTTL {
			delete(c.interactions, id)
		}
	}
	c.interactions[i.ID] = &pendingPress{app: i.App, token: i.Token, at: now}
}

// deferPresses sends deferred responses to overdue presses until ctx ends. A press that is
// never answered then shows no failure.
func (c *connection) deferPresses(ctx context.Context) {
	look := time.NewTicker(deferInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		for id, t := range c.overduePresses(time.Now()) {
			err := c.client.call(ctx, request{
				op: "defer button press", method: http.MethodPost, path: "/interactions/" + id + "/" + t.token + "/callback",
				noAuth: true, body: map[string]any{"type": responseDeferred},
			})
			if err != nil && ctx.Err() == nil {
				c.host.Log().Debug("could not defer the answer to a button press", "error", err)
			}
			close(t.deferred)
		}
	}
}

// overduePresses returns the presses to defer now.
func (c *connection) overduePresses(now time.Time) map[string]*pendingPress {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found map[string]*pendingPress
	for id, t := range c.interactions {
		if t.deferred != nil || now.Sub(t.at) < deferAfter {
			continue
		}
		t.deferred = make(chan struct{})
		if found == nil {
			found = map[string]*pendingPress{}
		}
		found[id] = t
	}
	return found
}

// AckButton implements [chat.Platform]. Only the person who pressed the button sees the answer.
// It ignores the error of a late answer: the decision is shown in the room all the same.
func (c *connection) AckButton(ctx context.Context, e chat.Event, text string) error {
	id := strings.TrimPrefix(e.Key, pressKey)
	c.mu.Lock()
	t := c.interactions[id]
	delete(c.interactions, id)
	c.mu.Unlock()
	if t == nil {
		return nil
	}
	data := map[string]any{"content": truncate(text, MaxMessage), "flags": flagEphemeral | flagNoEmbeds,
		"allowed_mentions": noMentions()}
	r := request{
		op: "answer button press", method: http.MethodPost, path: "/interactions/" + id + "/" + t.token + "/callback",
		noAuth: true, body: map[string]any{"type": responseMessage, "data": data},
	}
	if t.deferred != nil {
		select {
		case <-t.deferred:
		case <-ctx.Done():
			return sendError(ctx.Err())
		}
		r.path, r.body = "/webhooks/"+t.app+"/"+t.token, data
	}
	err := c.client.call(ctx, r)
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok &&
		slices.Contains([]string{"10015", "10062", "40060", "50027"}, e.Code) {
		return nil // the press came too late, or was answered already
	}
	return sendError(err)
}
