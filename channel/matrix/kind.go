package matrix

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

// NewKind returns the platform Matrix.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, OwnToken: true, New: newSettings,
		Connection: "any homeserver, rooms without encryption", AfterCrash: "once", Capabilities: capabilities(),
	}
}

func newSettings() *kind.Settings {
	token := new(setting.Secret)
	o := &Options{Token: token.Get, Poll: DefaultPoll, Gap: DefaultGap, EditGap: DefaultEditGap}
	return &kind.Settings{
		Options: o,
		Keys: append(kind.Token(token),
			setting.New("homeserver", "Address of the homeserver of the bot's account.", setting.BaseURL(&o.Homeserver)).
				Require(`missing homeserver; set one such as homeserver = "https://matrix.example.org"`),
			setting.New("poll",
				"How long the homeserver may hold a sync request open. Without an answer in this time plus 15s the connection counts as broken.", setting.Duration(&o.Poll, time.Second, 50*time.Second)),
			setting.New("gap", "Minimum time between two messages to a room.",
				setting.Duration(&o.Gap, 10*time.Millisecond, time.Minute)),
			setting.New("edit_gap", "Minimum time between two edits of a preview.",
				setting.Duration(&o.EditGap, 10*time.Millisecond, 10*time.Minute)),
		),
		Connect:         func(in chat.Options) channel.Connect { return adapter.Connect(in, o.Dial) },
		ReconnectPolicy: func() channel.ReconnectPolicy { return o.ReconnectPolicy() },
		Setup:           o.setup(token),
	}
}

// setup asks for a token, or for a user and a password, with which the probe gets a token.
func (o *Options) setup(token *setting.Secret) *kind.Setup {
	var user string
	login := false // the secret is the password of user
	return &kind.Setup{
		Short: "Connect a Matrix account to an agent",
		About: `The command asks for the bot's user and password, or for an access token instead of both.
With a password it logs the bot in as a new device; the password is not stored. The bot
cannot read encrypted rooms.`,
		Example: "--homeserver example.org --user mybot",
		Questions: []kind.Question{
			{Key: "homeserver", Usage: "homeserver URL, or a server name such as example.org",
				Prompt: kind.Ask("Homeserver URL or server name: "), Resolve: discover},
			{Flag: "user", Value: setting.Text(&user), Usage: "the bot's user, such as mybot or @mybot:example.org",
				Prompt: func() string {
					if token.IsSet() {
						return ""
					}
					return "Bot user (empty for an access token): "
				}},
			{Key: "token_file", Secret: "token", Usage: "use the access token in this file; the file is not copied",
				Prompt: func() string {
					if login = user != ""; login {
						return fmt.Sprintf("Password of %s: ", user)
					}
					return "Access token: "
				}},
		},
		Probe: func(ctx context.Context, at kind.Place) (found kind.Found, err error) {
			s := session{Homeserver: o.Homeserver}
			if s.Token, err = token.Get(); err != nil {
				return found, err
			}
			if login {
				s, err = logIn(ctx, o.Homeserver, user, s.Token)
				token.Hold(s.Token)
				found.Undo = s.logOut
			} else {
				s.Bot, err = s.identify(ctx)
			}
			found.Account = []string{fmt.Sprintf("the access token belongs to %s (%s), device %s; it is stored in %s", s.Bot.ID,
				s.Bot.Name, s.Bot.Device, token.File)}
			found.Next = []string{fmt.Sprintf(
				"invite %s to an unencrypted room, write a message there, then approve the code that it replies with: `%s`",
				s.Bot.ID, at.Approve)}
			return found, err
		},
	}
}
