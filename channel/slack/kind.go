package slack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform Slack.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, OwnToken: true, New: func() kind.Settings { return newSettings() },
		Connection: "Socket Mode", AfterCrash: "once, where the bot may read the history", Capabilities: capabilities(),
	}
}

// Settings are those of one app in one workspace.
type Settings struct {
	Token    setting.Secret // of the bot
	AppToken setting.Secret // opens the socket
	Options  Options
}

func newSettings() *Settings {
	s := &Settings{Options: Options{API: DefaultAPI, IdleTimeout: DefaultIdleTimeout}}
	s.Options.Token, s.Options.AppToken = s.Token.Get, s.AppToken.Get
	return s
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	o := &s.Options
	const missing = "missing app-level token; set either app_token_env or app_token_file"
	return slices.Concat(kind.Token(&s.Token), s.AppToken.Settings("app_token", "the app-level token, with connections:write", missing), []setting.Setting{
		setting.New("threads", "Reply to a message in a channel in its own thread; false replies in the channel, as one conversation.", setting.Not(&o.Flat)),
		setting.New("api", "Base URL of the Web API.", setting.BaseURL(&o.API)),
		setting.New("fresh", "Time without an answer after which the socket counts as broken; it is pinged three times in this time.", setting.Duration(&o.IdleTimeout, 300*time.Millisecond, 10*time.Minute)),
	})
}

// Check implements [kind.Settings].
func (s *Settings) Check() error { return nil }

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect { return chat.Connect(o, s.Options.Dial) }

// Setup implements [kind.Settings].
func (s *Settings) Setup() *kind.Setup {
	return &kind.Setup{
		Short: "Connect a Slack app to an agent",
		Long: `Create the app at https://api.slack.com/apps from the manifest in docs/channels/slack.md
and install it in your workspace. The command asks for missing values: the agent and two
tokens. The bot token (xoxb-…) is under "OAuth & Permissions"; create the app-level token
(xapp-…) under "Basic Information" with the scope connections:write. The command tests
both, stores them in files of the data folder that only the owner can read, and adds a
table [channels.NAME] to mailroom.toml there. Restart a running server to load the channel.

Access: a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE".`,
		Example: `  mailroom channels add slack
  mailroom channels add slack --agent codex --token-file bot --app-token-file app`,
		Questions: []kind.Question{
			{Key: "token_file", Secret: "token", Usage: "use the bot token in this file; the file is not copied", Prompt: kind.Ask("Bot token (xoxb-…): ")},
			{Key: "app_token_file", Secret: "app-level token", Usage: "use the app-level token in this file; the file is not copied", Prompt: kind.Ask("App-level token (xapp-…): ")},
			{Key: "api", Usage: "base URL of the Web API"},
		},
		Probe: s.probe,
	}
}

func (s *Settings) probe(ctx context.Context, at kind.Place) (found kind.Found, err error) {
	bot, err := Identify(ctx, s.Options)
	if err != nil {
		return found, err
	}
	found.Account = []string{fmt.Sprintf("the tokens belong to @%s in %s (%s); they are stored in %s and %s", bot.Name, bot.Team, bot.URL, s.Token.File, s.AppToken.File)}
	if len(bot.MissingScopes) > 0 {
		found.Account = append(found.Account, "the app lacks scopes; add these and reinstall the app: "+strings.Join(bot.MissingScopes, ", "))
	}
	found.Next = []string{fmt.Sprintf("write to @%s in Slack, then approve the code that it replies with: `%s`", bot.Name, at.Approve)}
	return found, nil
}

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
