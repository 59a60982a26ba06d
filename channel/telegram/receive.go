package telegram

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// Receive implements [chat.Platform]. It ignores the position: Telegram keeps what was not
// confirmed, and restarts its numbering after a week without updates.
func (c *connection) Receive(ctx context.Context, _ string, handle chat.EventHandler) error {
	ctx, release := httpcall.BindContext(ctx, c.ctx)
	defer release()
	var offset int64 // 0: confirm nothing
	albums := albumHold{wait: c.options.AlbumWait, seen: map[string]time.Time{}}
	wait := time.Duration(0) // the first poll returns at once, to prove the connection
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
		held := false
		for _, raw := range updates {
			id, open, err := c.handleUpdate(ctx, raw, &albums, handle)
			if err != nil {
				return err
			}
			if held = held || open; !held {
				offset = id + 1 // of the last update, which may not have the highest id
			}
			c.host.Received()
		}
		// Limit the rate of polls to a server that answers at once, with nothing or with what is not confirmed.
		pause := min(wait/4, time.Second) - time.Since(asked)
		if held {
			pause = min(albums.wait, albumWait) / 4
		}
		if (held || len(updates) == 0) && pause > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		}
		wait = c.options.Poll
	}
}

// poll requests updates once. A non-zero offset confirms all updates below it.
func (c *connection) poll(
	ctx context.Context, offset int64, wait time.Duration,
) (updates []json.RawMessage, err error) {
	in := map[string]any{
		"timeout": int(wait / time.Second), "limit": 100,
		"allowed_updates": []string{"message", "edited_message", "callback_query"},
	}
	if offset != 0 {
		in["offset"] = offset
	}
	// The channel considers the connection silent before this timeout.
	within := wait + 2*pollGrace
	return updates, c.client.call(ctx, "receive", "getUpdates", in, &updates, within)
}

// handleUpdate passes one update to handle if it is for the bot, and returns its id. It reports whether the update must
// not be confirmed yet.
func (c *connection) handleUpdate(
	ctx context.Context, raw json.RawMessage, albums *albumHold, handle chat.EventHandler,
) (id int64, open bool, err error) {
	var number struct {
		ID int64 `json:"update_id"`
	}
	if err := json.Unmarshal(raw, &number); err != nil || number.ID == 0 {
		err := &httpcall.TransportError{Op: "receive", Reason: "update without update_id", MaybeSent: true}
		return 0, false, connectionError(err, c.options.Poll)
	}
	u, err := parseUpdate(raw)
	if err != nil {
		c.host.Log().Warn("unreadable update skipped", "update", number.ID, "error",
			c.client.http.Redact([]byte(err.Error())))
		return number.ID, false, nil
	}
	if m := u.Message; m != nil && m.MigratedTo != 0 {
		c.host.Log().Warn("group migrated to a supergroup: update its id in the configuration; it has a new thread",
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
		if e, ok = u.Message.unreadable(raw); !ok {
			return number.ID, false, nil
		}
		e.Position = strconv.FormatInt(number.ID, 10)
	}
	for i := range e.Files {
		c.SetOpen(&e.Files[i])
	}
	return number.ID, albums.isOpen(u.Message, time.Now()), handle(ctx, e)
}
