package config

import (
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/irc"
)

// KindIRC is an IRC network.
const KindIRC = irc.Kind

// IRC is a network, and who the bot is there.
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
		{"server", "Server of the network, HOST or HOST:PORT; the port is 6697 with TLS and 6667 without.", text(&c.Server)},
		{"tls", "Whether it is spoken to with TLS. Without it, a password goes to this machine only.", flag(&c.TLS)},
		{"nick", "Nick of the bot; while another has it, the bot goes by a similar one.", text(&c.Nick)},
		{"real_name", "What the network shows beside the nick; empty is the nick.", text(&c.RealName)},
		{"account", "Account of the bot, whose password the token is; without one the token is the password of the server, if it wants one.", text(&c.Account)},
		{"join", "Channels to be in, each with its key after a space if it has one.", list(&c.Join)},
		{"gap", "Least time between two lines to one room.", duration(&c.Gap, 10*time.Millisecond, time.Minute)},
		{"fresh", "How long an answer of the server proves that it is there; it is asked in half of that.", duration(&c.Fresh, 100*time.Millisecond, 10*time.Minute)},
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

// Options are what the settings say to the platform, with the password that token is.
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
		return `it needs a server, such as server = "irc.example.org"`
	case c.Nick == "":
		return `it needs a nick, such as nick = "mybot"`
	case ch.Token.ambiguous():
		return "it has token_env and token_file; one of them holds the password"
	case c.Account != "" && !ch.Token.IsSet():
		return "the account needs token_env or token_file with its password"
	}
	if err := c.options().Check(); err != nil {
		return err.Error()
	}
	return ""
}
