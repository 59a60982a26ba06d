package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/check"
	"mailroom/internal/retry"
	"mailroom/protocol/mcp"
)

// mailInboxCommand has the subcommands for people and scripts around the inboxes that agents read as MCP tools.
func mailInboxCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Wait for mail in an agent's inbox, and list who listens",
		Long: `Wait for mail in an agent's inbox, and list who listens. An inbox is a thread whose agent is
of kind inbox; its reader uses the MCP tools of ` + "`mailroom mcp`" + `.`,
		Example: `  mailroom inbox wait inbox-of-claude --timeout 10m
  mailroom inbox list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.UsageErrorf(cmd, "missing subcommand: wait or list")
		},
	}
	cmd.AddCommand(inboxWaitCommand(con), inboxListCommand(con))
	return cmd
}

// inboxThread returns the inbox that a command names, or the default one.
func inboxThread(con *command.Console, name string) (string, error) {
	id, err := check.ThreadID(cmp.Or(name, con.Env("MAILROOM_INBOX"), mcp.DefaultThread))
	if err != nil {
		return "", command.Errorf(command.ExitUsage, "", "the inbox: %w", err)
	}
	return id, nil
}

// remoteInbox is an inbox that is followed over restarts of its server.
type remoteInbox struct {
	thread string
	dial   func() (*client.Client, error) // finds the server, which may have moved
	// lasting reports whether an error ends the following. Another one is met by a new try.
	lasting func(error) bool
}

// Follow is [mcp.Inbox.Follow], begun again after each outage.
func (i *remoteInbox) Follow(ctx context.Context, changed func(head string)) error {
	pauses := retry.Policy{First: time.Second, Factor: 2, Most: 30 * time.Second}
	for failures := 1; ; failures++ {
		inbox, err := i.open()
		if err == nil {
			err = inbox.Follow(ctx, func(head string) { failures = 0; changed(head) })
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case i.lasting(err):
			return err
		}
		timer := time.NewTimer(pauses.Delay(max(failures, 1), rand.Float64()*5)) // thousands may wait for one server
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Waiting returns how many messages wait.
func (i *remoteInbox) Waiting(ctx context.Context) (int, error) {
	inbox, err := i.open()
	if err != nil {
		return 0, err
	}
	return inbox.Waiting(ctx)
}

// open returns the inbox at the server of this moment.
func (i *remoteInbox) open() (*mcp.Inbox, error) {
	c, err := i.dial()
	return mcp.NewInbox(c, i.thread), err
}

// isRefusal reports whether the server has answered that it will not do what was asked.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*mailroom.Error](err)
	return ok && e.Code != mailroom.CodeUnavailable && e.Code != mailroom.CodeRateLimited &&
		e.Code != mailroom.CodeInternal
}

func countMessages(n int) string {
	if n == 1 {
		return "1 message waits"
	}
	return fmt.Sprintf("%d messages wait", n)
}
