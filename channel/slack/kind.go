package slack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/adapter"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform Slack.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, OwnToken: true, New: newSettings,
		Connection: "Socket Mode", AfterCrash: "once, where the bot may read the history", Capabilities: capabilities(),
	}
}

func newSettings() *kind.Settings {
	const missing = "missing app-level token; set either app_token_env or app_token_file"
	token, appToken := new(setting.Secret), new(setting.Secret)
	o := &Options{Token: token.Get, AppToken: appToken.Get, API: DefaultAPI, IdleTimeout: DefaultIdleTimeout}
	return &kind.Settings{
		Options: o,
		Keys: slices.Concat(kind.Token(token), appToken.Settings("app_token", "the app-level token, with connections:write",
			missing), []setting.Setting{
			setting.New("threads",
				"Reply to a message in a channel in its own thread; false replies in the channel, as one conversation.",
				setting.Not(&o.Flat)),
			setting.New("api", "Base URL of the Web API.", setting.BaseURL(&o.API)),
			setting.New("fresh",
				"Time without an answer after which the socket counts as broken; it is pinged three times in this time.",
				setting.Duration(&o.IdleTimeout, 300*time.Millisecond, 10*time.Minute)),
		}),
		Connect:         func(in chat.Options) channel.Connect { return adapter.Connect(in, o.Dial) },
		ReconnectPolicy: func() channel.ReconnectPolicy { return o.ReconnectPolicy() },
		Setup: &kind.Setup{
			Short: "Connect a Slack app to an agent",
			About: `Create the app at https://api.slack.com/apps from the manifest in docs/channels/slack.md
and install it in your workspace. The bot token (xoxb-…) is under "OAuth & Permissions";
create the app-level token (xapp-…) under "Basic Information" with the scope
connections:write.`,
			Example: "--agent codex --token-file bot --app-token-file app",
			Questions: []kind.Question{
				{Key: "token_file", Secret: "token", Usage: "use the bot token in this file; the file is not copied",
					Prompt: kind.Ask("Bot token (xoxb-…): ")},
				{Key: "app_token_file", Secret: "app-level token",
					Usage:  "use the app-level token in this file; the file is not copied",
					Prompt: kind.Ask("App-level token (xapp-…): ")},
				{Key: "api", Usage: "base URL of the Web API"},
			},
			Probe: func(ctx context.Context, at kind.Place) (found kind.Found, err error) {
				bot, err := identify(ctx, *o)
				found.Account = []string{fmt.Sprintf("the tokens belong to @%s in %s (%s); they are stored in %s and %s", bot.Name,
					bot.Team, bot.URL, token.File, appToken.File)}
				if len(bot.MissingScopes) > 0 {
					found.Account = append(found.Account, "the app lacks scopes; add these and reinstall the app: "+
						strings.Join(bot.MissingScopes, ", "))
				}
				found.Next = []string{fmt.Sprintf("write to @%s in Slack, then approve the code that it replies with: `%s`",
					bot.Name, at.Approve)}
				return found, err
			},
		},
	}
}
