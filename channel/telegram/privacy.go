package telegram

import (
	"context"
	"slices"
	"time"
)

const (
	privacyTimeout  = 5 * time.Second  // for asking
	privacyTTL      = 10 * time.Minute // an answer is used for that long
	maxPrivacyChats = 1000             // chats
)

// privacyMode is whether the platform hands the bot only what is for it in a chat.
type privacyMode struct {
	enabled bool
	until   time.Time
}

// inPrivacyMode reports whether the bot gets only messages of a group that are for it. In
// privacy mode these are commands that name it, commands that name no bot if it was the
// last bot to write in the group, messages sent via it, and replies to any of these; admins
// get all messages (https://core.telegram.org/bots/features#privacy-mode). So a command
// that names no bot is for this one in privacy mode, and may be for another one without.
// Where the platform does not answer, the bot counts as an admin. Receive alone calls it.
func (c *connection) inPrivacyMode(ctx context.Context, chat int64) bool {
	now := time.Now()
	if p, ok := c.privacyModes[chat]; ok && now.Before(p.until) {
		return p.enabled
	}
	var member struct {
		Status string `json:"status"`
	}
	in := map[string]any{"chat_id": chat, "user_id": c.bot.ID}
	p := privacyMode{until: now.Add(privacyTTL)}
	if err := c.client.call(ctx, "ask what the bot is in a group", "getChatMember", in, &member, privacyTimeout); err != nil {
		c.host.Log().Warn("telegram did not say whether the bot is an admin of a group; commands there have to name it", "chat", chat, "error", err)
		p.until = now.Add(time.Minute)
	} else {
		p.enabled = member.Status != "administrator" && member.Status != "creator"
	}
	if len(c.privacyModes) >= maxPrivacyChats {
		clear(c.privacyModes)
	}
	c.privacyModes[chat] = p
	return p.enabled
}

// bypassesPrivacyMode reports whether a message shows that the bot gets all messages of its group:
// privacy mode would not have handed it out. A bot whose privacy mode is turned on or off
// keeps the old one in each group until it is added there again (same place), so getMe
// does not tell.
func (m *message) bypassesPrivacyMode() bool {
	if m == nil || m.Chat.Type != "group" && m.Chat.Type != "supergroup" || m.Text == "" || m.ReplyTo != nil || m.ViaBot != nil {
		return false
	}
	return !slices.ContainsFunc(m.Entities, func(e entity) bool {
		return e.Type == "bot_command" || e.Type == "mention" || e.Type == "text_mention"
	})
}

// recordReadsAll notes that the bot gets all messages of a chat. Receive alone calls it.
func (c *connection) recordReadsAll(chat int64) {
	if len(c.privacyModes) >= maxPrivacyChats {
		clear(c.privacyModes)
	}
	c.privacyModes[chat] = privacyMode{until: time.Now().Add(privacyTTL)}
}
