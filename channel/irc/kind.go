package irc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/adapter"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform IRC.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, New: newSettings,
		Connection: "any network, with TLS and SASL", AfterCrash: "one line may appear twice, and is marked",
		Capabilities: capabilities(),
	}
}

func newSettings() *kind.Settings {
	token := new(setting.Secret) // password of the account, else of the server
	o := &Options{Gap: DefaultGap, Fresh: DefaultFresh}
	o.Secrets = func() (Secrets, error) { return o.passwords(token) }
	return &kind.Settings{
		Options: o,
		Keys: append(kind.OptionalToken(token),
			setting.New("server", "Server, HOST or HOST:PORT; the default port is 6697 with TLS and 6667 without.",
				setting.Text(&o.Server)).
				Require(`missing server; set one such as server = "irc.example.org"`),
			setting.New("tls", "Use TLS. Without TLS, a password is only sent to localhost.", setting.Not(&o.Plain)),
			setting.New("nick", "Nick of the bot; if it is taken, the bot uses a similar one.", setting.Text(&o.Nick)).
				Require(`missing nick; set one such as nick = "mybot"`),
			setting.New("real_name", "Real name of the bot; empty is the nick.", setting.Text(&o.Name)),
			setting.New("account",
				"SASL account of the bot, with the token as its password; without an account the token is the server password.",
				setting.Text(&o.Account)),
			setting.New("join", "Channels to join, each optionally followed by a space and its key.", setting.List(&o.Join)),
			setting.New("gap", "Minimum time between two lines to a room.",
				setting.Duration(&o.Gap, 10*time.Millisecond, time.Minute)),
			setting.New("fresh",
				"Time without an answer after which the connection counts as broken; the bot pings the server after half of it.",
				setting.Duration(&o.Fresh, 100*time.Millisecond, 10*time.Minute)),
		),
		Check: func() error {
			switch {
			case token.Ambiguous():
				return errors.New("token_env and token_file are both set; use one")
			case o.Account != "" && !token.IsSet():
				return errors.New("missing password of the account; set token_env or token_file")
			}
			return o.Check()
		},
		Connect:         func(in chat.Options) channel.Connect { return adapter.Connect(in, o.Dial) },
		ReconnectPolicy: func() channel.ReconnectPolicy { return o.ReconnectPolicy() },
		Setup:           o.setup(),
	}
}

// passwords returns the passwords of a connection.
func (o *Options) passwords(token *setting.Secret) (s Secrets, err error) {
	switch {
	case !token.IsSet():
	case o.Account != "":
		s.Account, err = token.Get()
	default:
		s.Server, err = token.Get()
	}
	return s, err
}

func (o *Options) setup() *kind.Setup {
	return &kind.Setup{
		Short: "Connect an IRC network to an agent",
		About: `The test connects once, without joining a channel. The password is that of --account,
or else that of the server. Quote channel names in a shell, where # starts a comment.`,
		Example: `--server irc.libera.chat --nick mybot --account mybot --join "#dev"`,
		Questions: []kind.Question{
			{Key: "server", Usage: "server, HOST or HOST:PORT", Prompt: kind.Ask("Server, HOST or HOST:PORT: ")},
			{Key: "nick", Usage: "the bot's nick", Prompt: kind.Ask("Nick of the bot: ")},
			{Key: "account", Usage: "the bot's account, for SASL"},
			{Key: "join", Usage: `channel to join, as "#name" or "#name key"; may be repeated`},
			{Key: "token_file", Secret: "token",
				Usage: "use the password in this file (of the account, else of the server); the file is not copied",
				Prompt: func() string {
					if o.Account == "" {
						return ""
					}
					return fmt.Sprintf("Password of account %s: ", o.Account)
				}},
			{Key: "tls", Flag: "plain", Usage: "connect without TLS (a password is then sent to localhost only)"},
		},
		Probe: func(ctx context.Context, at kind.Place) (found kind.Found, err error) {
			nick, err := probe(ctx, *o)
			found.Account = []string{fmt.Sprintf("connected to %s as %s", o.Server, nick)}
			found.Next = []string{fmt.Sprintf("write to %s there, then approve the code that it replies with: `%s`", o.Nick,
				at.Approve)}
			return found, err
		},
	}
}
