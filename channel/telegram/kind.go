package telegram

import (
	"context"
	"fmt"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform Telegram.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, OwnToken: true, New: func() kind.Settings { return newSettings() },
		Connection: "Bot API, long polling", AfterCrash: "it may appear twice, and is marked", Capabilities: capabilities(),
	}
}

// Settings are those of one bot.
type Settings struct {
	Token   setting.Secret
	Options Options
}

func newSettings() *Settings {
	s := &Settings{Options: Options{API: DefaultAPI, Poll: DefaultPoll}}
	s.Options.Token = s.Token.Get
	for _, w := range chat.Menu() {
		s.Options.Commands = append(s.Options.Commands, Command{Name: w.Name, Description: w.Words})
	}
	return s
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	o := &s.Options
	return append(kind.Token(&s.Token),
		setting.New("api", "Base URL of the Bot API; change it for a self-hosted Bot API server.", setting.BaseURL(&o.API)),
		setting.New("poll", "How long the platform may hold a poll open, in whole seconds. Without an answer in this time plus 15s the connection counts as broken.", setting.Duration(&o.Poll, time.Second, 50*time.Second)),
	)
}

// Check implements [kind.Settings].
func (s *Settings) Check() error { return nil }

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect { return chat.Connect(o, s.Options.Dial) }

// Setup implements [kind.Settings].
func (s *Settings) Setup() *kind.Setup {
	return &kind.Setup{
		Short: "Connect a Telegram bot to an agent",
		Long: `The command asks for missing values: the agent, and the bot's token, which @BotFather
in Telegram shows after /newbot. It tests the token, stores it in a file of the data
folder that only the owner can read, and adds a table [channels.NAME] to mailroom.toml
there. Restart a running server to load the channel.

Access: a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE".`,
		Example: `  mailroom channels add telegram
  mailroom channels add telegram --agent codex --name support --token-file token`,
		Questions: []kind.Question{
			{Key: "token_file", Secret: "token", Usage: "use the token in this file; the file is not copied", Prompt: kind.Ask("Token of the bot, from @BotFather: ")},
			{Key: "api", Usage: "address of the Bot API"},
		},
		Probe: s.probe,
	}
}

func (s *Settings) probe(ctx context.Context, at kind.Place) (found kind.Found, err error) {
	bot, err := Identify(ctx, s.Options)
	if err != nil {
		return found, err
	}
	found.Account = []string{fmt.Sprintf("the token belongs to @%s (%s); it is stored in %s", bot.Username, bot.Name, s.Token.File)}
	found.Next = []string{fmt.Sprintf("write to https://t.me/%s, then approve the code that it replies with: `%s`", bot.Username, at.Approve)}
	if !bot.ReadsAll {
		found.Next = append(found.Next, "in groups the bot sees only messages to it and replies to its messages; to change that, turn off privacy mode with /setprivacy in @BotFather")
	}
	return found, nil
}

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
