package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/channel/irc"
	"mailroom/cmd/mailroom/internal/config"
)

// ircFlags is a network that is to be added.
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
		Short: "Connect a network of IRC to an agent",
		Long: `Connect a network of IRC to an agent.

What is needed and no flag says is asked for: the agent, the server, and the nick of the
bot, with --account also the password. The bot signs in once before anything is written;
it joins no channel then. The password goes into a file of the data folder that only its
owner may read, and a table [channels.NAME] is added to mailroom.toml there. A server
that is running has it once it is started again.

Who may talk: whoever writes to the bot gets a code, which "mailroom pair approve CODE"
lets in. A channel's name has to be quoted: a shell takes # for the beginning of a remark.`,
		Example: `  mailroom channels add irc
  mailroom channels add irc --server irc.libera.chat --nick mybot --account mybot --join "#dev"`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", irc.Kind, "name of the channel")
	flags.StringVar(&a.agent, "agent", "", "agent that reads what is said")
	flags.StringVar(&a.server, "server", "", "server of the network, HOST or HOST:PORT")
	flags.StringVar(&a.nick, "nick", "", "nick of the bot")
	flags.StringVar(&a.account, "account", "", "account of the bot, for SASL")
	flags.StringArrayVar(&a.join, "join", nil, `channel to be in, as "#name" or "#name key"; may be repeated`)
	flags.StringVar(&a.tokenFile, "token-file", "", "file that holds the password already, of the account or else of the server; it is read there, and not copied")
	flags.BoolVar(&a.plain, "plain", false, "speak without TLS, which no password does but to this machine")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.addIRC(cmd.Context(), a) }
	return cmd
}

// addIRC asks for what is missing, signs in once, and writes.
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
		if err := x.readSecret(fmt.Sprintf("Password of the account %s: ", a.account)); err != nil {
			return err
		}
	}
	ch, err := x.buildConfig(irc.Kind, a.settings())
	if err != nil {
		return err
	}
	o := ch.Platform.(*config.IRC).Options(&ch.Token)
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
	m.infof("%s lets the bot in as %s", a.server, nick)
	m.printChannelAdded(x.dir, a.name)
	m.infof("write to %s there, and let yourself in with the code that it answers: `%s`", a.nick, m.commandLine("pair", "approve", "--admin", "CODE"))
	return nil
}

// settings are the lines of the table that are IRC's.
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
