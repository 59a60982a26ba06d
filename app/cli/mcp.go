package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/app/endpoint"
	"mailroom/client"
	"mailroom/internal/check"
	"mailroom/internal/version"
	"mailroom/protocol/mcp"
)

func mcpCommand(con *command.Console) *cobra.Command {
	var thread string
	var ownToken, silent bool
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve an agent's inbox as MCP tools",
		Long: `Serve an agent's inbox as tools of the Model Context Protocol (MCP): the agent reads
its messages and writes to other threads with tool calls.

The command speaks MCP over standard input and output. Add it to the configuration of
the agent's program, which starts it. The tools read one thread, the inbox, which is
created at the first use.

It needs a running server, found in the same way as by the other commands. While the
server is unreachable, the tools return an error. The server offers the same tools
at /mcp.

While messages wait, the command tells the session that has started it, claude or codex, so
that an idle session begins a turn: it says how many wait, and again, less and less often,
until one is removed. It does not in a run of Mailroom, and not with --silent.`,
		Example: `  codex mcp add mailroom -- mailroom mcp --thread inbox-of-codex
  claude mcp add mailroom -- mailroom mcp --thread inbox-of-claude`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&thread, "thread", "",
		fmt.Sprintf("thread that is the inbox (default $MAILROOM_INBOX or %s)", mcp.DefaultThread))
	cmd.Flags().BoolVar(&ownToken, "own-token", false, "never use the token of the data folder or of the current context")
	cmd.Flags().BoolVar(&silent, "silent", false, "do not tell the session when messages wait")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		id, err := check.ThreadID(cmp.Or(thread, con.Env("MAILROOM_INBOX"), mcp.DefaultThread))
		if err != nil {
			return command.Errorf(command.ExitUsage, "", "--thread: %w", err)
		}
		return serveMCP(cmd.Context(), con, id, ownToken, !silent && con.Env("MAILROOM_THREAD") == "")
	}
	return cmd
}

// serveMCP serves the tools until standard input ends or ctx is done. With ownToken their calls fail where only a token
// of the user is known: of the data folder, or of the current context. With ring it rings the session that has started
// it.
func serveMCP(ctx context.Context, con *command.Console, thread string, ownToken, ring bool) error {
	own := *con // the dialer changes it
	if !ownToken {
		if err := endpoint.Fix(&own); err != nil {
			return command.Errorf(command.ExitUsage, "", "%w", err)
		}
	}
	o := clientDialer{con: &own, ownToken: ownToken}
	log := slog.New(slog.NewTextHandler(con.Stderr, nil))
	options := mcp.Options{
		Thread: thread, Own: con.Env("MAILROOM_THREAD"), Version: version.Read().Version, Dial: o.dial,
		RetryUnavailable: true, Log: log,
	}
	if ring {
		call, stop := startRinging(ctx, con, &o, thread, log)
		defer stop()
		options.Call = call
	}
	err := mcp.Serve(ctx, options, mcp.Stdio(con.Stdin, con.Stdout))
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// clientDialer finds the server again for each call, because the server may have started or moved since the last
// call.
type clientDialer struct {
	ownToken bool // refuse the user's

	mu     sync.Mutex
	con    *command.Console  // owned by mu
	found  endpoint.Endpoint // owned by mu; endpoint of the last call
	client *client.Client    // owned by mu; client of found, nil before the first call
}

func (o *clientDialer) dial() (*client.Client, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	find := endpoint.Find
	if o.ownToken {
		find = endpoint.FindNamed
	}
	d, err := find(o.con)
	if e, ok := errors.AsType[*command.Error](err); ok && e.Hint != "" {
		return nil, errors.New(e.Error() + ": " + e.Hint)
	}
	if err != nil {
		return nil, err
	}
	if o.ownToken && d.Operator {
		return nil, fmt.Errorf("this agent has no token of its own: the operator runs `%s` and sets MAILROOM_TOKEN where "+
			"the agent is started", o.con.CommandLine("token", "create", "NAME", "--scope", "read,submit,decide"))
	}
	if o.client == nil || d.URL != o.found.URL || d.Token != o.found.Token {
		o.found, o.client = d, d.Client()
	}
	return o.client, nil
}

// address returns the address of the server that the last call of dial found.
func (o *clientDialer) address() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.found.URL
}
