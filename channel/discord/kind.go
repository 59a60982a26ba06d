package discord

import (
	"context"
	"fmt"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform Discord.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, OwnToken: true, New: func() kind.Settings { return newSettings() },
		Connection: "gateway and HTTP API", AfterCrash: "once within two minutes; later it may appear twice, and is marked", Capabilities: capabilities(),
	}
}

// Settings are those of one bot.
type Settings struct {
	Token   setting.Secret
	Options Options
}

func newSettings() *Settings {
	s := &Settings{Options: Options{API: DefaultAPI, Heartbeat: DefaultHeartbeat}}
	s.Options.Token = s.Token.Get
	return s
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	o := &s.Options
	return append(kind.Token(&s.Token),
		setting.New("api", "Base URL of the HTTP API, including its version. The API provides the gateway's URL.", setting.BaseURL(&o.API)),
		setting.New("about", "URL of a page about your bot, for the User-Agent header that Discord requires; empty uses a placeholder.", aboutURL(&o.About)),
		setting.New("beat", "Maximum time between two heartbeats; the platform asks for about 41s. Without an acknowledgement in this time plus 15s the connection counts as broken.", setting.Duration(&o.Heartbeat, 100*time.Millisecond, 10*time.Minute)),
	)
}

// aboutURL is a URL for a User-Agent, or empty.
func aboutURL(p *string) setting.Value {
	return setting.Checked(p, `an address, such as "https://example.org/our-bot", or ""`, func(s string) bool { return s == "" || CheckAbout(s) == nil })
}

// Check implements [kind.Settings].
func (s *Settings) Check() error { return nil }

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect {
	return chat.Connect(o, s.Options.Dialer())
}

// Setup implements [kind.Settings].
func (s *Settings) Setup() *kind.Setup {
	return &kind.Setup{
		Short: "Connect a Discord bot to an agent",
		Long: `The command asks for missing values: the agent, and the bot's token, which the
Developer Portal (https://discord.com/developers/applications) shows under Bot after
Reset Token. Turn on the Message Content intent there too. The command tests both,
stores the token in a file of the data folder that only the owner can read, adds a
table [channels.NAME] to mailroom.toml there, and prints the invite link of the bot.
Restart a running server to load the channel.

Access: a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE".`,
		Example: `  mailroom channels add discord
  mailroom channels add discord --agent codex --name team --token-file token`,
		Questions: []kind.Question{
			{Key: "token_file", Secret: "token", Usage: "use the token in this file; the file is not copied", Prompt: kind.Ask("Bot token, from the Developer Portal under Bot: ")},
			{Key: "api", Usage: "base URL of the HTTP API, including its version"},
		},
		Probe: s.probe,
	}
}

func (s *Settings) probe(ctx context.Context, at kind.Place) (found kind.Found, err error) {
	bot, err := Identify(ctx, s.Options)
	if err != nil {
		return found, err
	}
	if !bot.ReadsContent {
		return found, fmt.Errorf("bot %s cannot read message content: turn on the Message Content intent in the Developer Portal under Bot", bot.Username)
	}
	found.Account = []string{fmt.Sprintf("the token belongs to %s; it is stored in %s", bot.Username, s.Token.File)}
	found.Next = []string{
		"invite the bot to your server: " + bot.Invite(),
		fmt.Sprintf("then send it a direct message, and approve the code that it replies with: `%s`", at.Approve),
	}
	return found, nil
}

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
