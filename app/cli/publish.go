package cli

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/reserved"
)

func publishCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish THREAD",
		Short: "Try again now to open the pull request of a thread's branch",
		Long: `Try again now to open the pull request of a thread's branch, which a run has pushed. The server
looks for the pull request first, so a repeat opens no second one. It tries again by itself, for a
day, if the reason can pass: then the command shows the attempts, and Ctrl-C ends only that.`,
		Example: `  mailroom publish fix-roof`,
		Args:    cobra.ExactArgs(1),
	}
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		return publish(cmd.Context(), con, c, args[0], *output)
	})
}

func publish(ctx context.Context, con *command.Console, c *client.Client, thread string, output command.Format) error {
	t, err := c.Thread(ctx, thread)
	if err != nil {
		return err
	}
	own := reserved.PullsID(t.Owner, t.ID)
	if _, err := c.Thread(ctx, own); mailroom.CodeOf(err) == mailroom.CodeNotFound {
		return command.Errorf(command.ExitFailed, "see its runs: "+con.CommandLine("runs", "--filter",
			"thread:"+client.Quote(t.ID)), "no run of %s has left a pull request to the server", t.ID)
	} else if err != nil {
		return err
	}
	// An attempt that waits for its time makes room for this one, which does the same.
	done, err := c.Submit(ctx, api.Submit{Thread: own, Text: "try again", Mode: mailroom.ModeInterrupt,
		Key: uuid.NewString()})
	if err != nil {
		return err
	}
	p := newReplyPrinter(con, output)
	if output == command.FormatJSON {
		if err := p.printSubmitted(done.Thread, done); err != nil {
			return err
		}
	}
	q := client.FollowQuery{Run: done.Run, After: fmt.Sprint(done.Seq)}
	return follow(ctx, con, c, q, p, con.CommandLine("attach", done.Thread))
}
