package telegram

import (
	"context"
	"time"
)

const (
	privacyTime  = 5 * time.Second  // for asking
	privacyKnown = 10 * time.Minute // an answer is used for that long
	maxPrivacy   = 1000             // chats
)

// privacy is whether the platform hands the bot only what is for it in a chat.
type privacy struct {
	is    bool
	until time.Time
}

// inPrivacyMode reports whether the bot gets only messages of a group that are for it. "Bot
// admins and bots with privacy mode disabled will receive all messages except messages sent
// by other bots" (Bots FAQ, "What messages will my bot get?"), so a command there that names
// no bot may be for another one. Where the platform does not answer, the bot counts as an
// admin. Receive alone calls it.
func (c *connection) inPrivacyMode(ctx context.Context, chat int64) bool {
	now := time.Now()
	if p, ok := c.privacy[chat]; ok && now.Before(p.until) {
		return p.is
	}
	var member struct {
		Status string `json:"status"`
	}
	in := map[string]any{"chat_id": chat, "user_id": c.bot.ID}
	p := privacy{until: now.Add(privacyKnown)}
	if err := c.client.call(ctx, "ask what the bot is in a group", "getChatMember", in, &member, privacyTime); err != nil {
		c.link.Log().Warn("telegram did not say whether the bot is an admin of a group; commands there have to name it", "chat", chat, "error", err)
		p.until = now.Add(time.Minute)
	} else {
		p.is = member.Status != "administrator" && member.Status != "creator"
	}
	if len(c.privacy) >= maxPrivacy {
		clear(c.privacy)
	}
	c.privacy[chat] = p
	return p.is
}
