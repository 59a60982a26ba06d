package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mailroom/channel/matrix"
)

// matrixFlags are the flags of mailroom channels add matrix.
type matrixFlags struct {
	channelFlags
	homeserver, user string
}

func (m *Main) addMatrixCommand() *cobra.Command {
	var a matrixFlags
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "Connect a Matrix account to an agent",
		Long: `Connect a Matrix account to an agent.

The command asks for missing values: the agent, the homeserver, and the bot's user and
password, or an access token instead of both. With a password it logs the bot in as a
new device; the password is not stored. It stores the access token in a file of the data
folder that only the owner can read, and adds a table [channels.NAME] to mailroom.toml
there. Restart a running server to load the channel.

Access: a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE". The bot cannot read encrypted rooms.`,
		Example: `  mailroom channels add matrix
  mailroom channels add matrix --homeserver example.org --user mybot
  mailroom channels add matrix --homeserver https://matrix.example.org --token-file token`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", matrix.Kind, "name of the channel")
	flags.StringVar(&a.agent, "agent", "", "agent that handles the messages")
	flags.StringVar(&a.homeserver, "homeserver", "", "homeserver URL, or a server name such as example.org")
	flags.StringVar(&a.user, "user", "", "the bot's user, such as mybot or @mybot:example.org")
	flags.StringVar(&a.tokenFile, "token-file", "", "use the access token in this file; the file is not copied")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.addMatrix(cmd.Context(), a) }
	return cmd
}

// addMatrix asks for missing values, logs in or tests the token, and writes the
// configuration. If writing fails, it logs the new device out.
func (m *Main) addMatrix(ctx context.Context, a matrixFlags) error {
	x, err := m.newChannelWizard(a.channelFlags)
	if err != nil {
		return err
	}
	if a.homeserver == "" {
		if a.homeserver, err = m.prompt(x.in, "Homeserver URL or server name: "); err != nil {
			return err
		}
	}
	at, err := matrix.Discover(ctx, a.homeserver)
	if err != nil {
		return exitErrorf(exitFailed, "nothing was written", "%w", err)
	}
	question := "Access token: "
	if a.user == "" && a.tokenFile == "" {
		if a.user, err = m.prompt(x.in, "Bot user (empty for an access token): "); err != nil {
			return err
		}
	}
	if a.user != "" && a.tokenFile == "" {
		question = fmt.Sprintf("Password of %s: ", a.user)
	}
	if err := x.readSecret(question); err != nil {
		return err
	}
	if _, err := x.buildConfig(matrix.Kind, fmt.Sprintf("homeserver = %q\n", at)); err != nil {
		return err
	}
	session := matrix.Session{Homeserver: at, Token: x.token}
	in := a.user != "" && a.tokenFile == ""
	if in {
		session, err = matrix.Login(ctx, at, a.user, x.token)
	} else {
		session.Bot, err = session.Identify(ctx)
	}
	if err != nil {
		return exitErrorf(exitFailed, "nothing was written", "%w", err)
	}
	x.token = session.Token
	if err := x.write(); err != nil {
		if in {
			err = errors.Join(err, session.Logout(context.WithoutCancel(ctx)))
		}
		return err
	}
	m.infof("the access token belongs to %s (%s), device %s; it is stored in %s", session.Bot.ID, session.Bot.Name, session.Bot.Device, x.file)
	m.printChannelAdded(x.dir, a.name)
	m.infof("invite %s to an unencrypted room, write a message there, then approve the code that it replies with: `%s`",
		session.Bot.ID, m.commandLine("pair", "approve", "--admin", "CODE"))
	return nil
}
