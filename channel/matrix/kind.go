package matrix

import (
	"context"
	"fmt"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform Matrix.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, OwnToken: true, New: func() kind.Settings { return newSettings() },
		Connection: "any homeserver, rooms without encryption", AfterCrash: "once", Capabilities: capabilities(),
	}
}

// Settings are those of one account.
type Settings struct {
	Token   setting.Secret
	Options Options
}

func newSettings() *Settings {
	s := &Settings{Options: Options{Poll: DefaultPoll, Gap: DefaultGap, EditGap: DefaultEditGap}}
	s.Options.Token = s.Token.Get
	return s
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	o := &s.Options
	return append(kind.Token(&s.Token),
		setting.New("homeserver", "Address of the homeserver of the bot's account.", setting.BaseURL(&o.Homeserver)).
			Require(`missing homeserver; set one such as homeserver = "https://matrix.example.org"`),
		setting.New("poll", "How long the homeserver may hold a sync request open. Without an answer in this time plus 15s the connection counts as broken.", setting.Duration(&o.Poll, time.Second, 50*time.Second)),
		setting.New("gap", "Minimum time between two messages to a room.", setting.Duration(&o.Gap, 10*time.Millisecond, time.Minute)),
		setting.New("edit_gap", "Minimum time between two edits of a preview.", setting.Duration(&o.EditGap, 10*time.Millisecond, 10*time.Minute)),
	)
}

// Check implements [kind.Settings].
func (s *Settings) Check() error { return nil }

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect { return chat.Connect(o, s.Options.Dial) }

// Setup implements [kind.Settings].
func (s *Settings) Setup() *kind.Setup {
	a := &addition{settings: s}
	return &kind.Setup{
		Short: "Connect a Matrix account to an agent",
		Long: `The command asks for missing values: the agent, the homeserver, and the bot's user and
password, or an access token instead of both. With a password it logs the bot in as a
new device; the password is not stored. It stores the access token in a file of the data
folder that only the owner can read, and adds a table [channels.NAME] to mailroom.toml
there. Restart a running server to load the channel.

Access: a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE". The bot cannot read encrypted rooms.`,
		Example: `  mailroom channels add matrix
  mailroom channels add matrix --homeserver example.org --user mybot
  mailroom channels add matrix --homeserver https://matrix.example.org --token-file token`,
		Questions: []kind.Question{
			{Key: "homeserver", Usage: "homeserver URL, or a server name such as example.org", Prompt: kind.Ask("Homeserver URL or server name: "), Resolve: Discover},
			{Flag: "user", Value: setting.Text(&a.user), Usage: "the bot's user, such as mybot or @mybot:example.org", Prompt: a.askUser},
			{Key: "token_file", Secret: "token", Usage: "use the access token in this file; the file is not copied", Prompt: a.askSecret},
		},
		Probe: a.probe,
	}
}

// addition is the state of a setup.
type addition struct {
	settings *Settings
	user     string
	login    bool // the secret is the password of user, not a token
}

func (a *addition) askUser() string {
	if a.settings.Token.IsSet() {
		return ""
	}
	return "Bot user (empty for an access token): "
}

func (a *addition) askSecret() string {
	if a.login = a.user != ""; a.login {
		return fmt.Sprintf("Password of %s: ", a.user)
	}
	return "Access token: "
}

// probe logs in if the secret is a password, which the access token then replaces.
func (a *addition) probe(ctx context.Context, at kind.Place) (found kind.Found, err error) {
	secret, err := a.settings.Token.Get()
	if err != nil {
		return found, err
	}
	session := Session{Homeserver: a.settings.Options.Homeserver, Token: secret}
	if a.login {
		if session, err = Login(ctx, session.Homeserver, a.user, secret); err == nil {
			a.settings.Token.Hold(session.Token)
			found.Undo = session.Logout
		}
	} else {
		session.Bot, err = session.Identify(ctx)
	}
	if err != nil {
		return found, err
	}
	found.Account = []string{fmt.Sprintf("the access token belongs to %s (%s), device %s; it is stored in %s", session.Bot.ID, session.Bot.Name, session.Bot.Device, a.settings.Token.File)}
	found.Next = []string{fmt.Sprintf("invite %s to an unencrypted room, write a message there, then approve the code that it replies with: `%s`", session.Bot.ID, at.Approve)}
	return found, nil
}

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
