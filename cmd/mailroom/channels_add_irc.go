package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/channel/irc"
)

// ircFlags are the flags of mailroom channels add irc.
type ircFlags struct {
	channelFlags
	server, nick, account string
	join                  []string
	plain                 bool
}

func (m *Main) addIRCCommand() *cobra.Command {
	var a ircFlags
	cmd := &cobra.Command{
		Use:   "irc",
		Short: "Connect an IRC network to an agent",
		Long: `Connect an IRC network to an agent.

The command asks for missing values: the agent, the server, the bot's nick and, with
--account, its password. It connects once to test them, without joining a channel. It
stores the password in a file of the data folder that only the owner can read, and adds
a table [channels.NAME] to mailroom.toml there. Restart a running server to load the
channel.

Access: a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE". Quote channel names in a shell, where # starts a comment.`,
		Example: `  mailroom channels add irc
  mailroom channels add irc --server irc.libera.chat --nick mybot --account mybot --join "#dev"`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", irc.Kind, "name of the channel")
	flags.StringVar(&a.agent, "agent", "", "agent that handles the messages")
	flags.StringVar(&a.server, "server", "", "server, HOST or HOST:PORT")
	flags.StringVar(&a.nick, "nick", "", "the bot's nick")
	flags.StringVar(&a.account, "account", "", "the bot's account, for SASL")
	flags.StringArrayVar(&a.join, "join", nil, `channel to join, as "#name" or "#name key"; may be repeated`)
	flags.StringVar(&a.tokenFile, "token-file", "", "use the password in this file (of the account, else of the server); the file is not copied")
	flags.BoolVar(&a.plain, "plain", false, "connect without TLS (a password is then sent to localhost only)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.addIRC(cmd.Context(), a) }
	return cmd
}

// addIRC asks for missing values, connects once and writes the configuration.
func (m *Main) addIRC(ctx context.Context, a ircFlags) error {
	x, err := m.newChannelWizard(a.channelFlags)
	if err != nil {
		return err
	}
	for _, q := range []struct {
		into *string
		what string
	}{{&a.server, "Server, HOST or HOST:PORT: "}, {&a.nick, "Nick of the bot: "}} {
		if *q.into == "" {
			if *q.into, err = m.prompt(x.in, q.what); err != nil {
				return err
			}
		}
	}
	if a.account != "" || a.tokenFile != "" {
		if err := x.readSecret(fmt.Sprintf("Password of account %s: ", a.account)); err != nil {
			return err
		}
	}
	ch, err := x.buildConfig(irc.Kind, a.settings())
	if err != nil {
		return err
	}
	o := ch.Settings.(*irc.Settings).Options
	o.Secrets = func() (irc.Secrets, error) {
		if a.account != "" {
			return irc.Secrets{Account: x.token}, nil
		}
		return irc.Secrets{Server: x.token}, nil
	}
	nick, err := irc.Probe(ctx, o)
	if err != nil {
		return exitErrorf(exitFailed, "nothing was written", "%w", err)
	}
	if err := x.write(); err != nil {
		return err
	}
	m.infof("connected to %s as %s", a.server, nick)
	m.printChannelAdded(x.dir, a.name)
	m.infof("write to %s there, then approve the code that it replies with: `%s`", a.nick, m.commandLine("pair", "approve", "--admin", "CODE"))
	return nil
}

// settings returns the IRC settings as TOML lines.
func (a ircFlags) settings() string {
	lines := fmt.Sprintf("server = %q\nnick = %q\n", a.server, a.nick)
	if a.plain {
		lines += "tls = false\n"
	}
	if a.account != "" {
		lines += fmt.Sprintf("account = %q\n", a.account)
	}
	if len(a.join) > 0 {
		var names []string
		for _, name := range a.join {
			names = append(names, fmt.Sprintf("%q", name))
		}
		lines += "join = [" + strings.Join(names, ", ") + "]\n"
	}
	return lines
}
