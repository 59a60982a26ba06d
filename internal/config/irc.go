package config

import (
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/irc"
)

// KindIRC is an IRC network.
const KindIRC = irc.Kind

// IRC holds the settings of a network and the bot's identity.
type IRC struct {
	Server   string
	TLS      bool
	Nick     string
	RealName string // "": the nick
	Account  string // "": none
	Join     []string
	Gap      time.Duration
	Fresh    time.Duration
}

func newIRC() *IRC { return &IRC{TLS: true, Gap: irc.DefaultGap, Fresh: irc.DefaultFresh} }

func (c *IRC) settings() []setting {
	return []setting{
		{"server", "Server, HOST or HOST:PORT; the default port is 6697 with TLS and 6667 without.", text(&c.Server)},
		{"tls", "Use TLS. Without TLS, a password is only sent to localhost.", flag(&c.TLS)},
		{"nick", "Nick of the bot; if it is taken, the bot uses a similar one.", text(&c.Nick)},
		{"real_name", "Real name of the bot; empty is the nick.", text(&c.RealName)},
		{"account", "SASL account of the bot, with the token as its password; without an account the token is the server password.", text(&c.Account)},
		{"join", "Channels to join, each optionally followed by a space and its key.", list(&c.Join)},
		{"gap", "Minimum time between two lines to a room.", duration(&c.Gap, 10*time.Millisecond, time.Minute)},
		{"fresh", "Time without an answer after which the connection counts as broken; the bot pings the server after half of it.", duration(&c.Fresh, 100*time.Millisecond, 10*time.Minute)},
	}
}

func (c *IRC) options() irc.Options {
	return irc.Options{
		Server: c.Server, Plain: !c.TLS, Nick: c.Nick, Name: c.RealName, Account: c.Account, Join: c.Join, Gap: c.Gap, Fresh: c.Fresh,
	}
}

// Dial implements [ChatPlatform].
func (c *IRC) Dial(ch *Channel) (chat.Dialer, channel.ReconnectPolicy) {
	o := c.Options(&ch.Token)
	return o.Dial, o.ReconnectPolicy()
}

// Options returns the adapter's options, with token as the password.
func (c *IRC) Options(token *Secret) irc.Options {
	o := c.options()
	if token.IsSet() {
		o.Secrets = func() (s irc.Secrets, err error) {
			password, err := token.Get()
			if c.Account != "" {
				s.Account = password
			} else {
				s.Server = password
			}
			return s, err
		}
	}
	return o
}

func (c *IRC) missing(ch *Channel) string {
	switch {
	case c.Server == "":
		return `missing server; set one such as server = "irc.example.org"`
	case c.Nick == "":
		return `missing nick; set one such as nick = "mybot"`
	case ch.Token.ambiguous():
		return "token_env and token_file are both set; use one"
	case c.Account != "" && !ch.Token.IsSet():
		return "missing password of the account; set token_env or token_file"
	}
	if err := c.options().Check(); err != nil {
		return err.Error()
	}
	return ""
}
