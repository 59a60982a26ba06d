package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/channel/slack"
)

// slackFlags are the flags of mailroom channels add slack.
type slackFlags struct {
	channelFlags
	appTokenFile string
}

func (m *Main) addSlackCommand() *cobra.Command {
	var a slackFlags
	cmd := &cobra.Command{
		Use:   "slack",
		Short: "Connect a Slack app to an agent",
		Long: `Connect a Slack app to an agent.

Create the app at https://api.slack.com/apps from the manifest in docs/channels/slack.md
and install it in your workspace. The command asks for missing values: the agent and two
tokens. The bot token (xoxb-…) is under "OAuth & Permissions"; create the app-level token
(xapp-…) under "Basic Information" with the scope connections:write. The command tests
both, stores them in files of the data folder that only the owner can read, and adds a
table [channels.NAME] to mailroom.toml there. Restart a running server to load the channel.

Access: a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE".`,
		Example: `  mailroom channels add slack
  mailroom channels add slack --agent codex --token-file bot --app-token-file app`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", slack.Kind, "name of the channel")
	flags.StringVar(&a.agent, "agent", "", "agent that handles the messages")
	flags.StringVar(&a.tokenFile, "token-file", "", "use the bot token in this file; the file is not copied")
	flags.StringVar(&a.appTokenFile, "app-token-file", "", "use the app-level token in this file; the file is not copied")
	flags.StringVar(&a.api, "api", slack.DefaultAPI, "base URL of the Web API")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.addSlack(cmd.Context(), a) }
	return cmd
}

// addSlack asks for missing values, tests both tokens and writes the files.
func (m *Main) addSlack(ctx context.Context, a slackFlags) error {
	x, err := m.newChannelWizard(a.channelFlags)
	if err != nil {
		return err
	}
	if err := x.readSecret("Bot token (xoxb-…): "); err != nil {
		return err
	}
	token, file, err := x.readAppToken(a.appTokenFile)
	if err != nil {
		return err
	}
	more := fmt.Sprintf("app_token_file = %q\n", file)
	if a.api != slack.DefaultAPI {
		more += fmt.Sprintf("api = %q\n", a.api)
	}
	if _, err := x.buildConfig(slack.Kind, more); err != nil {
		return err
	}
	bot, err := slack.Identify(ctx, slack.Options{
		API: a.api, Token: func() (string, error) { return x.token, nil }, AppToken: func() (string, error) { return token, nil },
	})
	if err != nil {
		return exitErrorf(exitFailed, "nothing was written", "%w", err)
	}
	if a.appTokenFile == "" {
		if err := x.dir.WriteFile(file, []byte(token+"\n")); err != nil {
			return err
		}
	}
	if err := x.write(); err != nil {
		return err
	}
	m.infof("the tokens belong to @%s in %s (%s); they are stored in %s and %s", bot.Name, bot.Team, bot.URL, x.file, file)
	if len(bot.MissingScopes) > 0 {
		m.infof("the app lacks scopes; add these and reinstall the app: %s", strings.Join(bot.MissingScopes, ", "))
	}
	m.printChannelAdded(x.dir, a.name)
	m.infof("write to @%s in Slack, then approve the code that it replies with: `%s`", bot.Name, m.commandLine("pair", "approve", "--admin", "CODE"))
	return nil
}

// readAppToken reads the app-level token from the file, or asks for it.
func (x *channelWizard) readAppToken(from string) (token, file string, err error) {
	if from == "" {
		token, err = x.m.prompt(x.in, "App-level token (xapp-…): ")
		return token, x.dir.ChannelAppToken(x.flags.name), err
	}
	if file, err = filepath.Abs(from); err != nil {
		return "", "", fmt.Errorf("resolve the path of the app-level token file: %w", err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", "", exitErrorf(exitUsage, "", "read the app-level token: %w", err)
	}
	return strings.TrimSpace(string(raw)), file, nil
}
