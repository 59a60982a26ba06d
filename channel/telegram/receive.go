package telegram

import (
	"context"
	"encoding/json"
	"time"

	"mailroom/channel/chat"
)

// Receive implements [chat.Platform]. The position is not needed: the platform has
// what was not confirmed, and numbers begin anew after a week without any.
func (c *connection) Receive(ctx context.Context, _ string, take chat.EventHandler) error {
	ctx, done := c.bindContext(ctx)
	defer done()
	var offset int64         // 0: nothing is to be confirmed
	wait := time.Duration(0) // the first poll only proves that it is answered
	for {
		asked := time.Now()
		updates, err := c.poll(ctx, offset, wait)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return connectionError(err, c.options.Poll)
		}
		c.host.Received()
		offset = 0
		for _, raw := range updates {
			id, err := c.handleUpdate(ctx, raw, take)
			if err != nil {
				return err
			}
			offset = id + 1 // of the last one, which need not have the highest
			c.host.Received()
		}
		// A server that answers at once with nothing must not be asked at once again.
		if pause := min(wait/4, time.Second) - time.Since(asked); len(updates) == 0 && pause > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		}
		wait = c.options.Poll
	}
}

// poll asks once. It confirms what is below the offset.
func (c *connection) poll(ctx context.Context, offset int64, wait time.Duration) (updates []json.RawMessage, err error) {
	in := map[string]any{
		"timeout": int(wait / time.Second), "limit": 100,
		"allowed_updates": []string{"message", "edited_message", "callback_query"},
	}
	if offset != 0 {
		in["offset"] = offset
	}
	// The channel's evidence is stale before this has passed.
	within := wait + 2*pollGrace
	return updates, c.client.call(ctx, "receive", "getUpdates", in, &updates, within)
}

// handleUpdate hands one update in, if it is for us, and returns its number.
func (c *connection) handleUpdate(ctx context.Context, raw json.RawMessage, take chat.EventHandler) (id int64, err error) {
	var number struct {
		ID int64 `json:"update_id"`
	}
	if err := json.Unmarshal(raw, &number); err != nil || number.ID == 0 {
		return 0, connectionError(&transportError{op: "receive", reason: "an update has no number", maybeSent: true}, c.options.Poll)
	}
	u, err := parseUpdate(raw)
	if err != nil {
		c.host.Log().Warn("an update is not understood and left out", "update", number.ID, "error", c.client.redact([]byte(err.Error())))
		return number.ID, nil
	}
	if m := u.Message; m != nil && m.MigratedTo != 0 {
		c.host.Log().Warn("a group has become another one: its id in the configuration is to be changed, and it has a new thread",
			"was", m.Chat.ID, "is", m.MigratedTo)
	}
	bot := c.bot
	for _, m := range []*message{u.Message, u.Edited} {
		switch {
		case bot.ReadsAll:
		case m.bypassesPrivacyMode():
			c.recordReadsAll(m.Chat.ID)
		case m.isBareCommand():
			bot.ReadsAll = !c.inPrivacyMode(ctx, m.Chat.ID)
		}
	}
	e, ok := u.toEvent(bot)
	if !ok {
		return number.ID, nil
	}
	for i := range e.Files {
		c.SetOpen(&e.Files[i])
	}
	return number.ID, take(ctx, e)
}
