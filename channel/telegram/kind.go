package telegram

import (
	"context"
	"fmt"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/adapter"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform Telegram.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, OwnToken: true, New: newSettings,
		Connection: "Bot API, long polling", AfterCrash: "it may appear twice, and is marked", Capabilities: capabilities(),
	}
}

func newSettings() *kind.Settings {
	token := new(setting.Secret)
	o := &Options{Token: token.Get, API: DefaultAPI, Poll: DefaultPoll}
	for _, w := range chat.CommandMenu() {
		o.Commands = append(o.Commands, Command{Name: w.Name, Description: w.Words})
	}
	return &kind.Settings{
		Options: o,
		Keys: append(kind.Token(token),
			setting.New("api", "Base URL of the Bot API; change it for a self-hosted Bot API server.", setting.BaseURL(&o.API)),
			setting.New("poll",
				"How long the platform may hold a poll open, in whole seconds. Without an answer in this time plus 15s the connection counts as broken.", setting.Duration(&o.Poll, time.Second, 50*time.Second)),
		),
		Connect:         func(in chat.Options) channel.Connect { return adapter.Connect(in, o.Dial) },
		ReconnectPolicy: func() channel.ReconnectPolicy { return o.ReconnectPolicy() },
		Setup: &kind.Setup{
			Short:   "Connect a Telegram bot to an agent",
			About:   "@BotFather in Telegram shows the bot's token after /newbot.",
			Example: "--agent codex --name support --token-file token",
			Questions: []kind.Question{
				{Key: "token_file", Secret: "token", Usage: "use the token in this file; the file is not copied",
					Prompt: kind.Ask("Token of the bot, from @BotFather: ")},
				{Key: "api", Usage: "address of the Bot API"},
			},
			Probe: func(ctx context.Context, at kind.Place) (found kind.Found, err error) {
				bot, err := identify(ctx, *o)
				found.Account = []string{fmt.Sprintf("the token belongs to @%s (%s); it is stored in %s", bot.Username, bot.Name,
					token.File)}
				found.Next = []string{fmt.Sprintf("write to https://t.me/%s, then approve the code that it replies with: `%s`",
					bot.Username, at.Approve)}
				if !bot.ReadsAll {
					found.Next = append(found.Next,
						"in groups the bot sees only messages to it and replies to its messages; to change that, turn off privacy mode with /setprivacy in @BotFather")
				}
				return found, err
			},
		},
	}
}
