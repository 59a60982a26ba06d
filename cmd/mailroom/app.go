package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"mailroom/internal/cli"
	"mailroom/internal/console"
)

// Main is one invocation of the program. Data goes to Stdout, messages for people to Stderr.
type Main struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Env    func(string) string // as os.Getenv
	// Unsetenv removes a variable from the environment of the process, so that child
	// processes do not inherit it. nil: does nothing.
	Unsetenv func(name string) error
	Name     string // os.Args[0], for hints; "" means mailroom

	con *console.Console
}

// Run runs the command in args and returns its exit code. Cancelling ctx
// means Ctrl-C.
func (m *Main) Run(ctx context.Context, args []string) int {
	con := &console.Console{Stdin: m.Stdin, Stdout: m.Stdout, Stderr: m.Stderr, Env: m.Env, Unsetenv: m.Unsetenv, Name: m.Name}
	parsed := false // the command line is valid
	root := rootCommand(con)
	root.PersistentPreRun = func(*cobra.Command, []string) { parsed = true }
	root.SetArgs(args)
	root.SetIn(m.Stdin)
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !parsed {
		err = console.UsageErrorf(cmd, "%w", err)
	}
	if err != nil {
		return con.ReportError(ctx, err)
	}
	return console.ExitDone
}

func rootCommand(con *console.Console) *cobra.Command {
	root := &cobra.Command{
		Use:           "mailroom",
		Short:         "A durable mailbox for agents",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&con.Data, "data", "", "data folder of the server (default $MAILROOM_DATA, else mailroom in $XDG_DATA_HOME)")
	channels := cli.Channels(con, stateTable())
	channels.AddCommand(addChannelCommand(con))
	root.AddCommand(
		channels, serveCommand(con), bridgeCommand(con), workCommand(con), issueCommand(con), configCommand(con), doctorCommand(con),
		restoreCommand(con), benchCommand(con),
	)
	root.AddCommand(cli.Commands(con)...)
	root.AddCommand(moreCommands(con)...)
	return root
}

const rootHelp = `A durable mailbox for agents.

Start a server with "mailroom serve", then send a message to an agent with
"mailroom send". Accepted messages are never lost: the run continues when you
close the terminal, and "mailroom attach" shows it again. "mailroom send --agent
tour hello" demonstrates what a run can do, without a model or an API key.

Exit codes: 0 success, 1 failed or cancelled, 2 invalid usage or input, 3 waiting
for a decision, 4 no server or not authorized, 130 interrupted by Ctrl-C. A server
whose channels are all down exits with 75 (restart it) or 78 (fix its configuration).`
