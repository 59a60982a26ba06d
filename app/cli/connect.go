package cli

import (
	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/app/endpoint"
	"mailroom/client"
)

// connect returns a client for the server. It warns about mistyped variables.
func connect(con *command.Console) (*client.Client, error) {
	if con.Environ != nil {
		for _, warning := range endpoint.MistypedVariables(con.Environ()) {
			con.Infof("warning: %s", warning)
		}
	}
	return connectQuietly(con)
}

func connectQuietly(con *command.Console) (*client.Client, error) {
	server, err := endpoint.Find(con)
	if err != nil {
		return nil, err
	}
	return server.Client(client.WithOutage(func(err error) { printConnectionState(con, err) })), nil
}

// withClient sets run as the action of cmd and passes it a client of the server.
func withClient(
	con *command.Console, cmd *cobra.Command, run func(c *client.Client, args []string) error,
) *cobra.Command {
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		c, err := connect(con)
		if err != nil {
			return err
		}
		return run(c, args)
	}
	return cmd
}

// breakLine ends the line that Stdout is in the middle of, before another one for Stderr, if a terminal shows both.
func breakLine(con *command.Console) {
	if con.MidLine && command.IsTerminal(con.Stdout) && command.IsTerminal(con.Stderr) {
		con.Infof("")
		con.MidLine = false
	}
}

// printConnectionState reports that the server became unreachable (err is set) or reachable again.
// A partially printed line continues on the next line.
func printConnectionState(con *command.Console, err error) {
	breakLine(con)
	if err != nil {
		con.Infof("server unreachable; retrying (Ctrl-C detaches and cancels nothing)")
		return
	}
	con.Infof("server reachable again")
}
