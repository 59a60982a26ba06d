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
)

// The platform waits three seconds for an answer to somebody who has pressed a button,
// and says then that it failed. What was pressed may have to wait behind something that
// takes longer. So one that was not answered in half of that is acknowledged, which
// shows nothing, and answered when it was taken.

const (
	pressKey      = "tap:"
	deferAfter    = 1500 * time.Millisecond
	deferInterval = 250 * time.Millisecond
	// interactionTTL is how long one that was acknowledged can be answered.
	interactionTTL = 15 * time.Minute
)

// Kinds of answers to who pressed a button.
const (
	responseMessage  = 4
	responseDeferred = 6
)

// pendingPress is how who pressed a button is answered. Its token is told nowhere.
type pendingPress struct {
	app, token string
	at         time.Time     // when it arrived
	deferred   chan struct{} // closed when it was acknowledged; nil: it was not to be yet
}

// trackPress notes a tap as soon as it arrives, and forgets those that nobody waits for.
func (c *connection) trackPress(f *frame, now time.Time) {
	var i interaction
	if err := json.Unmarshal(f.Data, &i); err != nil || i.Type != interactionComponent {
		return // it is told where it is taken
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

// deferPresses has the platform wait for the answers to taps, until ctx ends. Of those
// that get none it says nothing then.
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
				op: "acknowledge who pressed a button", method: http.MethodPost, path: "/interactions/" + id + "/" + t.token + "/callback",
				noAuth: true, body: map[string]any{"type": responseDeferred},
			})
			if err != nil && ctx.Err() == nil {
				c.host.Log().Debug("who pressed a button has to wait too long", "error", err)
			}
			close(t.deferred)
		}
	}
}

// overduePresses are the taps that have waited so long that they are to be acknowledged now.
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

// AckButton implements [chat.Platform]. Only who pressed the button sees the answer. Nobody
// waits any more for one that comes too late; what came of it is shown where it was
// asked all the same.
func (c *connection) AckButton(ctx context.Context, e chat.Event, words string) error {
	id := strings.TrimPrefix(e.Key, pressKey)
	c.mu.Lock()
	t := c.interactions[id]
	delete(c.interactions, id)
	c.mu.Unlock()
	if t == nil {
		return nil
	}
	data := map[string]any{"content": truncate(words, MaxMessage), "flags": flagEphemeral | flagNoEmbeds, "allowed_mentions": noMentions()}
	k := request{
		op: "answer who pressed a button", method: http.MethodPost, path: "/interactions/" + id + "/" + t.token + "/callback",
		noAuth: true, body: map[string]any{"type": responseMessage, "data": data},
	}
	if t.deferred != nil {
		select {
		case <-t.deferred:
		case <-ctx.Done():
			return sendError(ctx.Err())
		}
		k.path, k.body = "/webhooks/"+t.app+"/"+t.token, data
	}
	err := c.client.call(ctx, k)
	if e, ok := errors.AsType[*apiError](err); ok && slices.Contains([]int{10015, 10062, 40060, 50027}, e.code) {
		return nil // too late, or answered
	}
	return sendError(err)
}
