package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"mailroom/channel/discord"
)

func (m *Main) addDiscordCommand() *cobra.Command {
	var a channelFlags
	cmd := &cobra.Command{
		Use:   "discord",
		Short: "Connect a bot of Discord to an agent",
		Long: `Connect a bot of Discord to an agent.

What no flag says is asked for: which agent it is, and the bot's token, which the
Developer Portal (https://discord.com/developers/applications) shows under Bot, once
Reset Token was pressed. The Message Content intent has to be on there. Both are tried
before anything is written. The token goes into a file of the data folder that only its
owner may read, and a table [channels.NAME] is added to mailroom.toml there. A server
that is running has it once it is started again. The address that lets the bot into a
server of Discord's is printed.

Who may talk: whoever writes to the bot gets a code, which "mailroom pair approve CODE"
lets in.`,
		Example: `  mailroom channels add discord
  mailroom channels add discord --agent codex --name team --token-file token`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", discord.Kind, "name of the channel")
	flags.StringVar(&a.agent, "agent", "", "agent that reads what is said")
	flags.StringVar(&a.tokenFile, "token-file", "", "file that holds the token already; it is read there, and not copied")
	flags.StringVar(&a.api, "api", discord.DefaultAPI, "address of the HTTP API, with its version")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.addDiscord(cmd.Context(), a) }
	return cmd
}

// addDiscord asks for what is missing, tries the token, and writes both files.
func (m *Main) addDiscord(ctx context.Context, a channelFlags) error {
	x, err := m.newChannelWizard(a)
	if err != nil {
		return err
	}
	if err := x.readSecret("Token of the bot, from the Developer Portal, under Bot: "); err != nil {
		return err
	}
	more := ""
	if a.api != discord.DefaultAPI {
		more = fmt.Sprintf("api = %q\n", a.api)
	}
	if _, err := x.buildConfig(discord.Kind, more); err != nil {
		return err
	}
	bot, err := discord.Identify(ctx, discord.Options{API: a.api, Token: func() (string, error) { return x.token, nil }})
	if err != nil {
		return exitErrorf(exitFailed, "nothing was written", "%w", err)
	}
	if !bot.ReadsContent {
		return exitErrorf(exitFailed, "turn the Message Content intent on in the Developer Portal, under Bot; nothing was written",
			"the bot %s may not read what people write", bot.Username)
	}
	if err := x.write(); err != nil {
		return err
	}
	m.infof("the token is that of %s; it is in %s", bot.Username, x.file)
	m.printChannelAdded(x.dir, a.name)
	m.infof("let the bot into a server of yours: %s", bot.Invite())
	m.infof("then write to it in private, and let yourself in with the code that it answers: `%s`", m.commandLine("pair", "approve", "--admin", "CODE"))
	return nil
}
