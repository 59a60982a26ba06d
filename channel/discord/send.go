package discord

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"unicode/utf8"

	"mailroom/channel/chat"
)

// Flags of a message.
const (
	flagNoEmbeds = 1 << 2 // links are not shown as pictures
	flagOnlyOne  = 1 << 6 // only who pressed the button sees it
)

// Kinds of what is shown under a message.
const (
	componentRow    = 1
	componentButton = 2
	styleGrey       = 2
)

// nobody is told of what names them: what an agent writes rings nowhere.
func nobody() map[string]any { return map[string]any{"parse": []string{}, "replied_user": false} }

// Send implements [chat.Platform].
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, key string) (id string, err error) {
	in, err := say(m)
	if err != nil {
		return "", err
	}
	in["flags"] = flagNoEmbeds
	if key != "" {
		in["nonce"], in["enforce_nonce"] = nonceOf(key), true
	}
	if snowflake(m.Reply) != 0 { // not a tap
		in["message_reference"] = map[string]any{"message_id": m.Reply, "fail_if_not_exists": false}
	}
	var sent struct {
		ID string `json:"id"`
	}
	err = c.client.call(ctx, call{what: "send a message", method: http.MethodPost, path: "/channels/" + channelOf(to) + "/messages", in: in, out: &sent})
	if err != nil {
		return "", failure(c.refusedToken(ctx, err))
	}
	return sent.ID, nil
}

// Edit implements [chat.Platform].
func (c *connection) Edit(ctx context.Context, to chat.Room, id string, m chat.Message) error {
	in, err := say(m)
	if err != nil {
		return err
	}
	if snowflake(id) == 0 {
		return permanent(fmt.Errorf("%q is no message of Discord", id))
	}
	err = c.client.call(ctx, call{what: "edit a message", method: http.MethodPatch, path: "/channels/" + channelOf(to) + "/messages/" + id, in: in})
	return failure(c.refusedToken(ctx, err))
}

// Typing implements [chat.Platform].
func (c *connection) Typing(ctx context.Context, to chat.Room) error {
	return failure(c.refusedToken(ctx, c.client.call(ctx, call{what: "show that it is typing", method: http.MethodPost, path: "/channels/" + channelOf(to) + "/typing"})))
}

// say is what of a message is the same when it is sent and edited. Without buttons it
// loses those that it had.
func say(m chat.Message) (map[string]any, error) {
	if len(m.Buttons) > mostButtons {
		return nil, permanent(fmt.Errorf("the message has %d buttons: Discord takes %d in a row", len(m.Buttons), mostButtons))
	}
	rows := []any{}
	var row []any
	for _, b := range m.Buttons {
		if n := utf8.RuneCountInString(b.Data); n == 0 || n > mostData || b.Words == "" {
			return nil, permanent(fmt.Errorf("the button %q carries %d characters: Discord takes 1 to %d", b.Words, n, mostData))
		}
		row = append(row, map[string]any{"type": componentButton, "style": styleGrey, "label": shortened(b.Words, mostLabel), "custom_id": b.Data})
	}
	if len(row) > 0 {
		rows = append(rows, map[string]any{"type": componentRow, "components": row})
	}
	return map[string]any{"content": m.Text, "components": rows, "allowed_mentions": nobody()}, nil
}

// channelOf is the id under which the platform has a room: a thread is a channel too.
func channelOf(to chat.Room) string {
	if to.Topic != "" {
		return to.Topic
	}
	return to.Chat
}

// nonceOf is the nonce of a key. It has 24 characters; the platform takes 25.
func nonceOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// shortened is a text of at most so many units.
func shortened(text string, most int) string {
	if units(text) <= most {
		return text
	}
	n := 0
	for i, r := range text {
		if n += units(string(r)); n >= most {
			return text[:i] + "…"
		}
	}
	return text
}
