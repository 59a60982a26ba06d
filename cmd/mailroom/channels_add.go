package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/channel/telegram"
	"mailroom/internal/config"
	"mailroom/internal/datadir"
	"mailroom/internal/platforms"
)

// channelFlags are the flags common to all kinds of mailroom channels add.
type channelFlags struct {
	name, agent, api, tokenFile string
}

func (m *Main) addChannelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Add a channel to the configuration and test it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var kinds []string
			for _, c := range cmd.Commands() {
				kinds = append(kinds, c.Name())
			}
			return exitErrorf(exitUsage, m.commandLine("channels", "add")+" "+strings.Join(kinds, ", or "), "missing kind of channel")
		},
	}
	cmd.AddCommand(
		m.addDiscordCommand(),
		m.addIRCCommand(),
		m.addMatrixCommand(),
		m.addSlackCommand(),
		m.addTelegramCommand(),
		m.addWebhookCommand(),
	)
	return cmd
}

func (m *Main) addTelegramCommand() *cobra.Command {
	var a channelFlags
	cmd := &cobra.Command{
		Use:   "telegram",
		Short: "Connect a Telegram bot to an agent",
		Long: `Connect a Telegram bot to an agent.

The command asks for missing values: the agent, and the bot's token, which @BotFather
in Telegram shows after /newbot. It tests the token, stores it in a file of the data
folder that only the owner can read, and adds a table [channels.NAME] to mailroom.toml
there. Restart a running server to load the channel.

Access: a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE".`,
		Example: `  mailroom channels add telegram
  mailroom channels add telegram --agent codex --name support --token-file token`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", telegram.Kind, "name of the channel")
	flags.StringVar(&a.agent, "agent", "", "agent that handles the messages")
	flags.StringVar(&a.tokenFile, "token-file", "", "use the token in this file; the file is not copied")
	flags.StringVar(&a.api, "api", telegram.DefaultAPI, "address of the Bot API")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.addTelegram(cmd.Context(), a) }
	return cmd
}

// addTelegram asks for missing values, tests the token and writes both files.
func (m *Main) addTelegram(ctx context.Context, a channelFlags) error {
	x, err := m.newChannelWizard(a)
	if err != nil {
		return err
	}
	if err := x.readSecret("Token of the bot, from @BotFather: "); err != nil {
		return err
	}
	more := ""
	if a.api != telegram.DefaultAPI {
		more = fmt.Sprintf("api = %q\n", a.api)
	}
	if _, err := x.buildConfig(telegram.Kind, more); err != nil {
		return err
	}
	bot, err := telegram.Identify(ctx, telegram.Options{API: a.api, Token: func() (string, error) { return x.token, nil }})
	if err != nil {
		return exitErrorf(exitFailed, "nothing was written", "%w", err)
	}
	if err := x.write(); err != nil {
		return err
	}
	m.printTelegramAdded(x.dir, a, bot, x.file)
	return nil
}

// channelWizard collects the settings of a new channel and writes them.
type channelWizard struct {
	m      *Main
	dir    datadir.Dir
	in     *bufio.Reader
	flags  channelFlags
	before []byte // the current configuration file
	after  []byte // the new configuration file, set by buildConfig

	// Set by readSecret; empty without a secret.
	token, file string
}

// newChannelWizard reads the configuration and asks for the agent unless a flag names it.
func (m *Main) newChannelWizard(a channelFlags) (*channelWizard, error) {
	dir, err := datadir.Find(m.con.Data, m.Env)
	if err != nil {
		return nil, exitErrorf(exitUsage, "", "%w", err)
	}
	before, err := os.ReadFile(dir.Config())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	now, err := config.Parse(dir.Config(), before, platforms.All())
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	if now.Channels[a.name] != nil {
		return nil, exitErrorf(exitUsage, "choose another name with --name, or edit "+dir.Config(), "channel %s already exists", a.name)
	}
	x := &channelWizard{m: m, dir: dir, in: bufio.NewReader(m.Stdin), flags: a, before: before}
	if x.flags.agent == "" {
		if x.flags.agent, err = m.prompt(x.in, fmt.Sprintf("Agent that handles the messages [%s]: ", now.DefaultAgent)); err != nil {
			return nil, err
		}
	}
	if x.flags.agent == "" {
		x.flags.agent = now.DefaultAgent
	}
	return x, checkAgent(now, x.flags.agent)
}

// readSecret reads the token from --token-file, or asks for it.
func (x *channelWizard) readSecret(question string) (err error) {
	x.file = x.dir.ChannelToken(x.flags.name)
	if x.flags.tokenFile == "" {
		x.token, err = x.m.prompt(x.in, question)
		return err
	}
	if x.file, err = filepath.Abs(x.flags.tokenFile); err != nil {
		return fmt.Errorf("resolve the path of the token file: %w", err)
	}
	raw, err := os.ReadFile(x.file)
	if err != nil {
		return exitErrorf(exitUsage, "", "read the token: %w", err)
	}
	x.token = strings.TrimSpace(string(raw))
	return nil
}

// buildConfig builds the new configuration file and validates it before a token is
// sent anywhere.
func (x *channelWizard) buildConfig(kind, more string) (*config.Channel, error) {
	table := fmt.Sprintf("[channels.%q]\nkind = %q\nagent = %q\n", x.flags.name, kind, x.flags.agent)
	if x.file != "" {
		table += fmt.Sprintf("token_file = %q\n", x.file)
	}
	if len(x.before) > 0 {
		x.after = append([]byte(strings.TrimRight(string(x.before), "\n")), "\n\n"...)
	}
	x.after = append(x.after, table+more...)
	c, err := config.Parse(x.dir.Config(), x.after, platforms.All())
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	return c.Channels[x.flags.name], nil
}

// write writes the configuration, and the token unless --token-file was given.
func (x *channelWizard) write() error {
	if x.flags.tokenFile == "" && x.file != "" {
		if err := x.dir.WriteFile(x.file, []byte(x.token+"\n")); err != nil {
			return err
		}
	}
	at := x.dir.Config()
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real // keep a symbolic link
	}
	return x.dir.WriteFile(at, x.after)
}

// printTelegramAdded prints the added bot and the next steps.
func (m *Main) printTelegramAdded(dir datadir.Dir, a channelFlags, bot telegram.Bot, file string) {
	m.infof("the token belongs to @%s (%s); it is stored in %s", bot.Username, bot.Name, file)
	m.printChannelAdded(dir, a.name)
	m.infof("write to https://t.me/%s, then approve the code that it replies with: `%s`", bot.Username, m.commandLine("pair", "approve", "--admin", "CODE"))
	if !bot.ReadsAll {
		m.infof("in groups the bot sees only messages to it and replies to its messages; to change that, turn off privacy mode with /setprivacy in @BotFather")
	}
}

// printChannelAdded prints where the channel was added and how to load it.
func (m *Main) printChannelAdded(dir datadir.Dir, name string) {
	m.infof("added channel %s to %s", name, dir.Config())
	next := "start the server with `%s`"
	if _, err := dir.Address(); err == nil {
		next = "restart the server to load the channel: stop it, then `%s`"
	}
	m.infof(next, m.commandLine("serve"))
}

// prompt asks a question and reads one line.
func (m *Main) prompt(in *bufio.Reader, question string) (string, error) {
	fmt.Fprint(m.Stderr, question)
	line, err := in.ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(m.Stderr)
		return "", exitErrorf(exitUsage, "use a flag, or answer on standard input", "no answer to %q", strings.TrimSpace(question))
	}
	return strings.TrimSpace(line), nil
}
