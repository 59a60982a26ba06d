package discord

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

// NewKind returns the platform Discord.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, OwnToken: true, New: newSettings,
		Connection: "gateway and HTTP API", AfterCrash: "once within two minutes; later it may appear twice, and is marked",
		Capabilities: capabilities(),
	}
}

func newSettings() *kind.Settings {
	token := new(setting.Secret)
	o := &Options{Token: token.Get, API: DefaultAPI, Heartbeat: DefaultHeartbeat}
	about := setting.Checked(&o.About, `an address, such as "https://example.org/our-bot", or ""`, func(s string) bool {
		return s == "" || checkAbout(s) == nil
	})
	return &kind.Settings{
		Options: o,
		Keys: append(kind.Token(token),
			setting.New("api", "Base URL of the HTTP API, including its version. The API provides the gateway's URL.",
				setting.BaseURL(&o.API)),
			setting.New("about",
				"URL of a page about your bot, for the User-Agent header that Discord requires; empty uses a placeholder.", about),
			setting.New("beat",
				"Maximum time between two heartbeats; the platform asks for about 41s. Without an acknowledgement in this time plus 15s the connection counts as broken.", setting.Duration(&o.Heartbeat, 100*time.Millisecond, 10*time.Minute)),
		),
		Connect:         func(in chat.Options) channel.Connect { return adapter.Connect(in, o.Dialer()) },
		ReconnectPolicy: func() channel.ReconnectPolicy { return o.ReconnectPolicy() },
		Setup: &kind.Setup{
			Short: "Connect a Discord bot to an agent",
			About: `The Developer Portal (https://discord.com/developers/applications) shows the bot's token
under Bot after Reset Token. Turn on the Message Content intent there too. At the end the
command prints the link that invites the bot to a server.`,
			Example: "--agent codex --name team --token-file token",
			Questions: []kind.Question{
				{Key: "token_file", Secret: "token", Usage: "use the token in this file; the file is not copied",
					Prompt: kind.Ask("Bot token, from the Developer Portal under Bot: ")},
				{Key: "api", Usage: "base URL of the HTTP API, including its version"},
			},
			Probe: func(ctx context.Context, at kind.Place) (found kind.Found, err error) {
				bot, err := identify(ctx, *o)
				if err == nil && !bot.ReadsContent {
					err = fmt.Errorf(
						"bot %s cannot read message content: turn on the Message Content intent in the Developer Portal under Bot",
						bot.Username)
				}
				found.Account = []string{fmt.Sprintf("the token belongs to %s; it is stored in %s", bot.Username, token.File)}
				found.Next = []string{
					"invite the bot to your server: " + bot.invite(),
					fmt.Sprintf("then send it a direct message, and approve the code that it replies with: `%s`", at.Approve),
				}
				return found, err
			},
		},
	}
}
