package config

import (
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/telegram"
)

// KindTelegram is a bot of Telegram.
const KindTelegram = telegram.Kind

// Telegram is a bot.
type Telegram struct {
	API  string
	Poll time.Duration
}

func newTelegram() *Telegram { return &Telegram{API: telegram.DefaultAPI, Poll: telegram.DefaultPoll} }

func (t *Telegram) settings() []setting {
	return []setting{
		{"api", "Base URL of the Bot API; change it for a self-hosted Bot API server.", serviceURL(&t.API)},
		{"poll", "How long the platform may hold a poll open, in whole seconds. Without an answer in this time plus 15s the connection counts as broken.", duration(&t.Poll, time.Second, 50*time.Second)},
	}
}

func (t *Telegram) missing(c *Channel) string { return missingToken(c) }

// Dial implements [ChatPlatform].
func (t *Telegram) Dial(c *Channel) (chat.Dialer, channel.ReconnectPolicy) {
	o := telegram.Options{Token: c.Token.Get, API: t.API, Poll: t.Poll}
	for _, w := range chat.Menu() {
		o.Commands = append(o.Commands, telegram.Command{Name: w.Name, Description: w.Words})
	}
	return o.Dial, o.ReconnectPolicy()
}
