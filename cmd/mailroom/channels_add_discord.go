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
		Short: "Connect a Discord bot to an agent",
		Long: `Connect a Discord bot to an agent.

The command asks for missing values: the agent, and the bot's token, which the
Developer Portal (https://discord.com/developers/applications) shows under Bot after
Reset Token. Turn on the Message Content intent there too. The command tests both,
stores the token in a file of the data folder that only the owner can read, adds a
table [channels.NAME] to mailroom.toml there, and prints the invite link of the bot.
Restart a running server to load the channel.

Access: a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE".`,
		Example: `  mailroom channels add discord
  mailroom channels add discord --agent codex --name team --token-file token`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", discord.Kind, "name of the channel")
	flags.StringVar(&a.agent, "agent", "", "agent that handles the messages")
	flags.StringVar(&a.tokenFile, "token-file", "", "use the token in this file; the file is not copied")
	flags.StringVar(&a.api, "api", discord.DefaultAPI, "base URL of the HTTP API, including its version")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.addDiscord(cmd.Context(), a) }
	return cmd
}

// addDiscord asks for missing values, tests the token and writes both files.
func (m *Main) addDiscord(ctx context.Context, a channelFlags) error {
	x, err := m.newChannelWizard(a)
	if err != nil {
		return err
	}
	if err := x.readSecret("Bot token, from the Developer Portal under Bot: "); err != nil {
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
		return exitErrorf(exitFailed, "turn on the Message Content intent in the Developer Portal under Bot; nothing was written",
			"bot %s cannot read message content", bot.Username)
	}
	if err := x.write(); err != nil {
		return err
	}
	m.infof("the token belongs to %s; it is stored in %s", bot.Username, x.file)
	m.printChannelAdded(x.dir, a.name)
	m.infof("invite the bot to your server: %s", bot.Invite())
	m.infof("then send it a direct message, and approve the code that it replies with: `%s`", m.commandLine("pair", "approve", "--admin", "CODE"))
	return nil
}
