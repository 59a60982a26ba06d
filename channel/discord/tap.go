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
	tapKey     = "tap:"
	answerSoon = 1500 * time.Millisecond
	lookAtTaps = 250 * time.Millisecond
	// answerable is how long one that was acknowledged can be answered.
	answerable = 15 * time.Minute
)

// Kinds of answers to who pressed a button.
const (
	answerMessage = 4
	answerLater   = 6
)

// tap is how who pressed a button is answered. Its token is told nowhere.
type tap struct {
	app, token string
	at         time.Time     // when it arrived
	later      chan struct{} // closed when it was acknowledged; nil: it was not to be yet
}

// pressed notes a tap as soon as it arrives, and forgets those that nobody waits for.
func (c *connection) pressed(f *frame, now time.Time) {
	var i interaction
	if err := json.Unmarshal(f.Data, &i); err != nil || i.Type != interactionComponent {
		return // it is told where it is taken
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, t := range c.taps {
		if now.Sub(t.at) > answerable {
			delete(c.taps, id)
		}
	}
	c.taps[i.ID] = &tap{app: i.App, token: i.Token, at: now}
}

// acknowledge has the platform wait for the answers to taps, until ctx ends. Of those
// that get none it says nothing then.
func (c *connection) acknowledge(ctx context.Context) {
	look := time.NewTicker(lookAtTaps)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		for id, t := range c.waiting(time.Now()) {
			err := c.client.call(ctx, call{
				what: "acknowledge who pressed a button", method: http.MethodPost, path: "/interactions/" + id + "/" + t.token + "/callback",
				bare: true, in: map[string]any{"type": answerLater},
			})
			if err != nil && ctx.Err() == nil {
				c.link.Log().Debug("who pressed a button has to wait too long", "error", err)
			}
			close(t.later)
		}
	}
}

// waiting are the taps that have waited so long that they are to be acknowledged now.
func (c *connection) waiting(now time.Time) map[string]*tap {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found map[string]*tap
	for id, t := range c.taps {
		if t.later != nil || now.Sub(t.at) < answerSoon {
			continue
		}
		t.later = make(chan struct{})
		if found == nil {
			found = map[string]*tap{}
		}
		found[id] = t
	}
	return found
}

// AckButton implements [chat.Platform]. Only who pressed the button sees the answer. Nobody
// waits any more for one that comes too late; what came of it is shown where it was
// asked all the same.
func (c *connection) AckButton(ctx context.Context, e chat.Event, words string) error {
	id := strings.TrimPrefix(e.Key, tapKey)
	c.mu.Lock()
	t := c.taps[id]
	delete(c.taps, id)
	c.mu.Unlock()
	if t == nil {
		return nil
	}
	data := map[string]any{"content": shortened(words, Most), "flags": flagOnlyOne | flagNoEmbeds, "allowed_mentions": nobody()}
	k := call{
		what: "answer who pressed a button", method: http.MethodPost, path: "/interactions/" + id + "/" + t.token + "/callback",
		bare: true, in: map[string]any{"type": answerMessage, "data": data},
	}
	if t.later != nil {
		select {
		case <-t.later:
		case <-ctx.Done():
			return failure(ctx.Err())
		}
		k.path, k.in = "/webhooks/"+t.app+"/"+t.token, data
	}
	err := c.client.call(ctx, k)
	if e, ok := errors.AsType[*refused](err); ok && slices.Contains([]int{10015, 10062, 40060, 50027}, e.code) {
		return nil // too late, or answered
	}
	return failure(err)
}
