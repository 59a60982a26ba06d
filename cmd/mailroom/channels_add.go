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
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/cmd/mailroom/internal/datadir"
)

// channelFlags is what mailroom channels add was asked for.
type channelFlags struct {
	name, agent, api, tokenFile string
}

func (m *Main) addChannelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Write a channel into the configuration, once it was tried",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var kinds []string
			for _, c := range cmd.Commands() {
				kinds = append(kinds, c.Name())
			}
			return exitErrorf(exitUsage, m.commandLine("channels", "add")+" "+strings.Join(kinds, ", or "), "it is not said what to add")
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
		Short: "Connect a bot of Telegram to an agent",
		Long: `Connect a bot of Telegram to an agent.

What no flag says is asked for: which agent it is, and the bot's token, which
@BotFather in Telegram gives to who makes a bot with /newbot. The token is tried
before anything is written. It goes into a file of the data folder that only its owner
may read, and a table [channels.NAME] is added to mailroom.toml there. A server that is
running has it once it is started again.

Who may talk: whoever writes to the bot gets a code, which "mailroom pair approve CODE"
lets in.`,
		Example: `  mailroom channels add telegram
  mailroom channels add telegram --agent codex --name support --token-file token`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", telegram.Kind, "name of the channel")
	flags.StringVar(&a.agent, "agent", "", "agent that reads what is said")
	flags.StringVar(&a.tokenFile, "token-file", "", "file that holds the token already; it is read there, and not copied")
	flags.StringVar(&a.api, "api", telegram.DefaultAPI, "address of the Bot API")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.addTelegram(cmd.Context(), a) }
	return cmd
}

// addTelegram asks for what is missing, tries the token, and writes both files.
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

// channelWizard is a channel on its way into the configuration.
type channelWizard struct {
	m      *Main
	dir    datadir.Dir
	in     *bufio.Reader
	flags  channelFlags
	before []byte // the configuration as it is
	after  []byte // and as it will be; set by table

	// Set by secret; blank without one.
	token, file string
}

// newChannelWizard asks which agent it is, if no flag says so.
func (m *Main) newChannelWizard(a channelFlags) (*channelWizard, error) {
	dir, err := datadir.Find(m.data, m.Env)
	if err != nil {
		return nil, exitErrorf(exitUsage, "", "%w", err)
	}
	before, err := os.ReadFile(dir.Config())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	now, err := config.Parse(dir.Config(), before)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	if now.Channels[a.name] != nil {
		return nil, exitErrorf(exitUsage, "choose another with --name, or edit "+dir.Config(), "there is a channel %s already", a.name)
	}
	x := &channelWizard{m: m, dir: dir, in: bufio.NewReader(m.Stdin), flags: a, before: before}
	if x.flags.agent == "" {
		if x.flags.agent, err = m.prompt(x.in, fmt.Sprintf("Agent that reads what is said [%s]: ", now.DefaultAgent)); err != nil {
			return nil, err
		}
	}
	if x.flags.agent == "" {
		x.flags.agent = now.DefaultAgent
	}
	return x, checkAgent(now, x.flags.agent)
}

// readSecret reads the token from its file, or asks for it.
func (x *channelWizard) readSecret(question string) (err error) {
	x.file = x.dir.ChannelToken(x.flags.name)
	if x.flags.tokenFile == "" {
		x.token, err = x.m.prompt(x.in, question)
		return err
	}
	if x.file, err = filepath.Abs(x.flags.tokenFile); err != nil {
		return fmt.Errorf("find the file of the token: %w", err)
	}
	raw, err := os.ReadFile(x.file)
	if err != nil {
		return exitErrorf(exitUsage, "", "there is no token: %w", err)
	}
	x.token = strings.TrimSpace(string(raw))
	return nil
}

// buildConfig makes the configuration with the channel. The whole is checked before a
// token goes anywhere.
func (x *channelWizard) buildConfig(kind, more string) (*config.Channel, error) {
	table := fmt.Sprintf("[channels.%q]\nkind = %q\nagent = %q\n", x.flags.name, kind, x.flags.agent)
	if x.file != "" {
		table += fmt.Sprintf("token_file = %q\n", x.file)
	}
	if len(x.before) > 0 {
		x.after = append([]byte(strings.TrimRight(string(x.before), "\n")), "\n\n"...)
	}
	x.after = append(x.after, table+more...)
	c, err := config.Parse(x.dir.Config(), x.after)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	return c.Channels[x.flags.name], nil
}

// write keeps the token, unless it is in a file already, and the configuration.
func (x *channelWizard) write() error {
	if x.flags.tokenFile == "" && x.file != "" {
		if err := x.dir.WriteFile(x.file, []byte(x.token+"\n")); err != nil {
			return err
		}
	}
	at := x.dir.Config()
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real // a link stays one
	}
	return x.dir.WriteFile(at, x.after)
}

// printTelegramAdded says what is there now, and what comes next.
func (m *Main) printTelegramAdded(dir datadir.Dir, a channelFlags, bot telegram.Bot, file string) {
	m.infof("the token is that of @%s (%s); it is in %s", bot.Username, bot.Name, file)
	m.printChannelAdded(dir, a.name)
	m.infof("write to https://t.me/%s, and let yourself in with the code that it answers: `%s`", bot.Username, m.commandLine("pair", "approve", "--admin", "CODE"))
	if !bot.ReadsAll {
		m.infof("in groups it is handed what is said to it and what answers it: @BotFather can turn its privacy mode off with /setprivacy")
	}
}

// printChannelAdded says how a channel comes to be there.
func (m *Main) printChannelAdded(dir datadir.Dir, name string) {
	m.infof("channel %s is in %s", name, dir.Config())
	next := "start the server with `%s`"
	if _, err := dir.Address(); err == nil {
		next = "start the server again, so that it has the channel: stop it, then `%s`"
	}
	m.infof(next, m.commandLine("serve"))
}

// prompt asks for a line.
func (m *Main) prompt(in *bufio.Reader, question string) (string, error) {
	fmt.Fprint(m.Stderr, question)
	line, err := in.ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(m.Stderr)
		return "", exitErrorf(exitUsage, "say it with a flag, or on standard input", "there is no answer to %q", strings.TrimSpace(question))
	}
	return strings.TrimSpace(line), nil
}
