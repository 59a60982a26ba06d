package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mailroom/channel/matrix"
)

// matrixFlags is an account that is to be added.
type matrixFlags struct {
	channelFlags
	homeserver, user string
}

func (m *Main) addMatrixCommand() *cobra.Command {
	var a matrixFlags
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "Connect an account of Matrix to an agent",
		Long: `Connect an account of Matrix to an agent.

What no flag says is asked for: which agent it is, the homeserver, and the user that is
the bot with the password, or an access token instead of both. The bot is logged in as a
device of its own, and the password kept nowhere. The access token goes into a file of
the data folder that only its owner may read, and a table [channels.NAME] is added to
mailroom.toml there. A server that is running has it once it is started again.

Who may talk: whoever writes to the bot gets a code, which "mailroom pair approve CODE"
lets in. It reads rooms without encryption only.`,
		Example: `  mailroom channels add matrix
  mailroom channels add matrix --homeserver example.org --user mybot
  mailroom channels add matrix --homeserver https://matrix.example.org --token-file token`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", matrix.Kind, "name of the channel")
	flags.StringVar(&a.agent, "agent", "", "agent that reads what is said")
	flags.StringVar(&a.homeserver, "homeserver", "", "address of the homeserver, or a name such as example.org that says it")
	flags.StringVar(&a.user, "user", "", "user that is the bot, such as mybot or @mybot:example.org")
	flags.StringVar(&a.tokenFile, "token-file", "", "file that holds an access token already; it is read there, and not copied")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return m.addMatrix(cmd.Context(), a) }
	return cmd
}

// addMatrix asks for what is missing, logs in or tries the token, and writes. Whoever
// was logged in for nothing is logged out.
func (m *Main) addMatrix(ctx context.Context, a matrixFlags) error {
	x, err := m.newChannelWizard(a.channelFlags)
	if err != nil {
		return err
	}
	if a.homeserver == "" {
		if a.homeserver, err = m.prompt(x.in, "Homeserver, or the name of one: "); err != nil {
			return err
		}
	}
	at, err := matrix.Discover(ctx, a.homeserver)
	if err != nil {
		return exitErrorf(exitFailed, "nothing was written", "%w", err)
	}
	question := "Access token: "
	if a.user == "" && a.tokenFile == "" {
		if a.user, err = m.prompt(x.in, "User that is the bot, or nothing for an access token: "); err != nil {
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
	m.infof("the access token is that of %s (%s), device %s; it is in %s", session.Bot.ID, session.Bot.Name, session.Bot.Device, x.file)
	m.printChannelAdded(x.dir, a.name)
	m.infof("invite %s to a room without encryption, say something there, and let yourself in with the code that it answers: `%s`",
		session.Bot.ID, m.commandLine("pair", "approve", "--admin", "CODE"))
	return nil
}
