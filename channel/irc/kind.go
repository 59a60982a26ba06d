package irc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform IRC.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, New: func() kind.Settings { return newSettings() },
		Connection: "any network, with TLS and SASL", AfterCrash: "one line may appear twice, and is marked", Capabilities: capabilities(),
	}
}

// Settings are those of one network and the bot's identity there.
type Settings struct {
	Token   setting.Secret // password of the account, else of the server
	Options Options
}

func newSettings() *Settings {
	s := &Settings{Options: Options{Gap: DefaultGap, Fresh: DefaultFresh}}
	s.Options.Secrets = s.secrets
	return s
}

// secrets returns the passwords of a connection.
func (s *Settings) secrets() (out Secrets, err error) {
	if !s.Token.IsSet() {
		return out, nil
	}
	password, err := s.Token.Get()
	if s.Options.Account != "" {
		out.Account = password
	} else {
		out.Server = password
	}
	return out, err
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	o := &s.Options
	return append(kind.OptionalToken(&s.Token),
		setting.New("server", "Server, HOST or HOST:PORT; the default port is 6697 with TLS and 6667 without.", setting.Text(&o.Server)).
			Require(`missing server; set one such as server = "irc.example.org"`),
		setting.New("tls", "Use TLS. Without TLS, a password is only sent to localhost.", setting.Not(&o.Plain)),
		setting.New("nick", "Nick of the bot; if it is taken, the bot uses a similar one.", setting.Text(&o.Nick)).
			Require(`missing nick; set one such as nick = "mybot"`),
		setting.New("real_name", "Real name of the bot; empty is the nick.", setting.Text(&o.Name)),
		setting.New("account", "SASL account of the bot, with the token as its password; without an account the token is the server password.", setting.Text(&o.Account)),
		setting.New("join", "Channels to join, each optionally followed by a space and its key.", setting.List(&o.Join)),
		setting.New("gap", "Minimum time between two lines to a room.", setting.Duration(&o.Gap, 10*time.Millisecond, time.Minute)),
		setting.New("fresh", "Time without an answer after which the connection counts as broken; the bot pings the server after half of it.", setting.Duration(&o.Fresh, 100*time.Millisecond, 10*time.Minute)),
	)
}

// Check implements [kind.Settings].
func (s *Settings) Check() error {
	switch {
	case s.Token.Ambiguous():
		return errors.New("token_env and token_file are both set; use one")
	case s.Options.Account != "" && !s.Token.IsSet():
		return errors.New("missing password of the account; set token_env or token_file")
	}
	return s.Options.Check()
}

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect { return chat.Connect(o, s.Options.Dial) }

// Setup implements [kind.Settings].
func (s *Settings) Setup() *kind.Setup {
	return &kind.Setup{
		Short: "Connect an IRC network to an agent",
		Long: `The command asks for missing values: the agent, the server, the bot's nick and, with
--account, its password. It connects once to test them, without joining a channel. It
stores the password in a file of the data folder that only the owner can read, and adds
a table [channels.NAME] to mailroom.toml there. Restart a running server to load the
channel.

Access: a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE". Quote channel names in a shell, where # starts a comment.`,
		Example: `  mailroom channels add irc
  mailroom channels add irc --server irc.libera.chat --nick mybot --account mybot --join "#dev"`,
		Questions: []kind.Question{
			{Key: "server", Usage: "server, HOST or HOST:PORT", Prompt: kind.Ask("Server, HOST or HOST:PORT: ")},
			{Key: "nick", Usage: "the bot's nick", Prompt: kind.Ask("Nick of the bot: ")},
			{Key: "account", Usage: "the bot's account, for SASL"},
			{Key: "join", Usage: `channel to join, as "#name" or "#name key"; may be repeated`},
			{Key: "token_file", Secret: "token", Usage: "use the password in this file (of the account, else of the server); the file is not copied", Prompt: s.askPassword},
			{Key: "tls", Flag: "plain", Usage: "connect without TLS (a password is then sent to localhost only)"},
		},
		Probe: s.probe,
	}
}

func (s *Settings) askPassword() string {
	if s.Options.Account == "" {
		return ""
	}
	return fmt.Sprintf("Password of account %s: ", s.Options.Account)
}

func (s *Settings) probe(ctx context.Context, at kind.Place) (found kind.Found, err error) {
	nick, err := Probe(ctx, s.Options)
	if err != nil {
		return found, err
	}
	found.Account = []string{fmt.Sprintf("connected to %s as %s", s.Options.Server, nick)}
	found.Next = []string{fmt.Sprintf("write to %s there, then approve the code that it replies with: `%s`", s.Options.Nick, at.Approve)}
	return found, nil
}

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
