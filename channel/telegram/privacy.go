package telegram

import (
	"context"
	"slices"
	"time"
)

const (
	privacyTimeout  = 5 * time.Second  // of the lookup
	privacyTTL      = 10 * time.Minute // how long a result is cached
	maxPrivacyChats = 1000             // chats
)

// privacyMode caches whether Telegram withholds a chat's other messages from the bot.
type privacyMode struct {
	enabled bool
	until   time.Time
}

// inPrivacyMode reports whether the bot gets only the messages of a group that are meant for
// it. In privacy mode these are commands that name the bot, commands that name no bot if it was
// the last bot to write in the group, messages sent via it, and replies to any of these; admins
// get all messages (https://core.telegram.org/bots/features#privacy-mode). So a command that
// names no bot is meant for this bot in privacy mode, and may be meant for another bot
// otherwise. If the lookup fails, the bot counts as an admin. Only Receive calls it.
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
	if err := c.client.call(ctx, "get chat member", "getChatMember", in, &member, privacyTimeout); err != nil {
		c.host.Log().Warn("could not read the bot's role in a group; commands there must name the bot", "chat", chat,
			"error", err)
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

// bypassesPrivacyMode reports whether privacy mode would have withheld the message, so the bot
// must be getting all messages of its group. getMe does not say: when a bot's privacy mode
// changes, it keeps the old mode in each group until it is added there again (same page).
func (m *message) bypassesPrivacyMode() bool {
	if m == nil || m.Chat.Type != "group" && m.Chat.Type != "supergroup" || m.Text == "" || m.ReplyTo != nil ||
		m.ViaBot != nil {
		return false
	}
	return !slices.ContainsFunc(m.Entities, func(e entity) bool {
		return e.Type == "bot_command" || e.Type == "mention" || e.Type == "text_mention"
	})
}

// recordReadsAll records that the bot gets all messages of a chat. Only Receive calls it.
func (c *connection) recordReadsAll(chat int64) {
	if len(c.privacyModes) >= maxPrivacyChats {
		clear(c.privacyModes)
	}
	c.privacyModes[chat] = privacyMode{until: time.Now().Add(privacyTTL)}
}
