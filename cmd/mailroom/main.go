// Command mailroom is a durable mailbox for agents: the server, and the commands
// that talk to it.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"mailroom/app/cli"
	"mailroom/app/command"
	"mailroom/app/endpoint"
	"mailroom/app/manual"
	"mailroom/app/node"
	"mailroom/app/storage"
	"mailroom/internal/recovery"
	"mailroom/internal/version"
)

func main() { os.Exit(run()) }

// run cancels the command's context at the first SIGINT or SIGTERM. It restores the
// default handling first, so that a second signal ends the process at once.
func run() int {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if os.Getenv("GOGC") == "" {
		node.TuneGC()
	}
	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(signalled, func() {
		defer recovery.Log(nil, "signal handler")
		stop()
		cancel()
	})()
	m := Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Environ: os.Environ,
		Unsetenv: os.Unsetenv, Name: os.Args[0]}
	return m.Run(ctx, os.Args[1:])
}

// Main is one invocation of the program. Data goes to Stdout, messages for people to Stderr.
type Main struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Env    func(string) string // reads a variable, as os.Getenv does
	// Environ returns the environment, as [os.Environ] does. If it is nil, there are no variables.
	Environ func() []string
	// Unsetenv removes a variable from the environment of the process, so that child
	// processes do not inherit it. nil: does nothing.
	Unsetenv func(name string) error
	Name     string // os.Args[0], for hints; "" means mailroom
}

// Run runs the command in args and returns its exit code. Cancelling ctx
// means Ctrl-C.
func (m *Main) Run(ctx context.Context, args []string) int {
	con := &command.Console{Stdin: m.Stdin, Stdout: m.Stdout, Stderr: m.Stderr, Env: m.Env, Environ: m.Environ,
		Unsetenv: m.Unsetenv, Name: m.Name}
	parsed := false // the command line is valid
	root := rootCommand(con)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		parsed = true
		if err := command.CheckEmptyFlags(cmd); err != nil {
			return err
		}
		return checkContext(con, cmd)
	}
	root.SetArgs(args)
	root.SetIn(m.Stdin)
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !parsed {
		err = command.UsageErrorf(cmd, "%w", command.ExplainUsage(cmd, err))
	}
	if err != nil {
		return con.ReportError(ctx, err)
	}
	return command.ExitDone
}

// checkContext refuses --context for a command that talks to no server.
func checkContext(con *command.Console, cmd *cobra.Command) error {
	words := strings.Fields(cmd.CommandPath())[1:]
	if con.Context == "" || con.Context == endpoint.Local || len(words) == 0 {
		return nil
	}
	if slices.Contains([]string{"bridge", "config", "context", "docs", "doctor", "issue", "migrate", "prices", "restore",
		"serve", "store", "worktrees"}, words[0]) ||
		len(words) > 1 && (words[0] == "channels" || words[0] == "notify") && words[1] == "add" {
		return command.UsageErrorf(cmd, "--context is for commands that talk to a server, not for %s",
			strings.Join(words, " "))
	}
	return nil
}

func rootCommand(con *command.Console) *cobra.Command {
	root := &cobra.Command{
		Use:           "mailroom",
		Short:         "A durable mailbox for agents",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       "mailroom " + version.Read().String(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().BoolP("version", "v", false, "print the version")
	root.PersistentFlags().StringVar(&con.Data, "data", "",
		"data folder of the server (default $MAILROOM_DATA, $XDG_DATA_HOME/mailroom or ~/.local/share/mailroom)")
	root.PersistentFlags().StringVar(&con.Context, "context", "",
		"name of the server, see mailroom context (default $MAILROOM_CONTEXT)")
	channels := cli.Channels(con, node.ChannelStates())
	channels.AddCommand(addChannelCommand(con))
	notify := cli.Notify(con)
	notify.AddCommand(addTargetCommand(con))
	root.AddCommand(channels, notify, issueCommand(con), workflowCommand(con))
	root.AddCommand(cli.Commands(con)...)
	root.AddCommand(node.Commands(con)...)
	root.AddCommand(storage.Commands(con)...)
	root.AddCommand(manual.Commands(con)...)
	cli.AddCompletions(con, root)
	root.InitDefaultCompletionCmd("completion")
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		// cobra's own command shows the help for an unknown shell and succeeds. This one fails.
		c.RunE = func(cmd *cobra.Command, args []string) error {
			return command.UsageErrorf(cmd, "missing subcommand: bash, fish, powershell or zsh")
		}
	}
	command.GroupCommands(root)
	return root
}

const rootHelp = `A durable mailbox for agents.

Start a server with "mailroom serve", then send a message to an agent with
"mailroom send". Accepted messages are never lost: the run continues when you
close the terminal, and "mailroom attach" shows it again. "mailroom send --agent
tour hello" demonstrates what a run can do, without a model or an API key.

The server shows the manual of this version at /docs/, and "mailroom docs" writes it
into a folder. The folder "examples" of the source has programs to copy. "mailroom
plugin" explains this program to claude and codex.

An id of a run, ticket or thread may be shortened to its first six characters or more,
as long as no other one begins so.

Exit codes: 0 success, 1 failed or cancelled, 2 invalid usage or input, 3 waiting
for a decision, 4 no server or not authorized, 130 interrupted by Ctrl-C. A server
whose channels are all down exits with 75 (restart it) or 78 (fix its configuration).`
