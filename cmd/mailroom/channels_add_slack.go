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

// slackFlags is an app that is to be added.
type slackFlags struct {
	channelFlags
	appTokenFile string
}

func (m *Main) addSlackCommand() *cobra.Command {
	var a slackFlags
	cmd := &cobra.Command{
		Use:   "slack",
		Short: "Connect an app of Slack to an agent",
		Long: `Connect an app of Slack to an agent.

What no flag says is asked for: which agent it is, and two tokens. Make the app at
https://api.slack.com/apps from the manifest in docs/channels/slack.md, and install it
in your workspace. The bot's token begins with xoxb- and is under "OAuth & Permissions";
the app-level token begins with xapp-, and is made under "Basic Information" with the
scope connections:write. Both are tried before anything is written. They go into files of the
data folder that only its owner may read, and a table [channels.NAME] is added to
mailroom.toml there. A server that is running has it once it is started again.

Who may talk: whoever writes to the bot gets a code, which "mailroom pair approve CODE"
lets in.`,
		Example: `  mailroom channels add slack
  mailroom channels add slack --agent codex --token-file bot --app-token-file app`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", slack.Kind, "name of the channel")
	flags.StringVar(&a.agent, "agent", "", "agent that reads what is said")
	flags.StringVar(&a.tokenFile, "token-file", "", "file that holds the bot's token already; it is read there, and not copied")
	flags.StringVar(&a.appTokenFile, "app-token-file", "", "the same of the app-level token")
	flags.StringVar(&a.api, "api", slack.DefaultAPI, "address of the Web API")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.addSlack(cmd.Context(), a) }
	return cmd
}

// addSlack asks for what is missing, tries both tokens, and writes.
func (m *Main) addSlack(ctx context.Context, a slackFlags) error {
	x, err := m.newChannelWizard(a.channelFlags)
	if err != nil {
		return err
	}
	if err := x.readSecret("Token of the bot, xoxb-…: "); err != nil {
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
	m.infof("the tokens are those of @%s in %s (%s); they are in %s and %s", bot.Name, bot.Team, bot.URL, x.file, file)
	if len(bot.MissingScopes) > 0 {
		m.infof("the bot may not do everything that it should; add these scopes and install the app again: %s", strings.Join(bot.MissingScopes, ", "))
	}
	m.printChannelAdded(x.dir, a.name)
	m.infof("write to @%s in Slack, and let yourself in with the code that it answers: `%s`", bot.Name, m.commandLine("pair", "approve", "--admin", "CODE"))
	return nil
}

// readAppToken reads the app-level token from a file, or asks for it.
func (x *channelWizard) readAppToken(from string) (token, file string, err error) {
	if from == "" {
		token, err = x.m.prompt(x.in, "App-level token, xapp-…: ")
		return token, x.dir.ChannelAppToken(x.flags.name), err
	}
	if file, err = filepath.Abs(from); err != nil {
		return "", "", fmt.Errorf("find the file of the app-level token: %w", err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", "", exitErrorf(exitUsage, "", "there is no app-level token: %w", err)
	}
	return strings.TrimSpace(string(raw)), file, nil
}
