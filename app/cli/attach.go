package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/entry"
)

func attachCommand(con *command.Console) *cobra.Command {
	var after int64
	cmd := &cobra.Command{
		Use:        "attach THREAD|RUN",
		SuggestFor: []string{"follow"},
		Short:      "Show the reply of a thread or run, and follow it until it is done",
		Long: `Show the reply of a thread or run, and follow it until it is done.

Without --after it starts at the beginning of the thread's current run, or of its
latest run if none is open. Ctrl-C detaches and cancels nothing. If the run waits
for a decision, the commands that decide are shown and the exit code is 3.`,
		Example: `  mailroom attach notes
  mailroom attach notes --after 12`,
		Args: cobra.ExactArgs(1),
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().Int64Var(&after, "after", 0, "show entries after this sequence number")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("after") && after < 0 {
			return command.Errorf(command.ExitUsage, "", "invalid --after %d: sequence numbers start at 1", after)
		}
		from := strconv.FormatInt(after, 10)
		if !cmd.Flags().Changed("after") {
			from = ""
		}
		return attach(cmd.Context(), con, args[0], from, *output)
	}
	return cmd
}

// attach follows the thread or run id. after is the cursor to start from; with "" it starts at the beginning of the
// run.
func attach(ctx context.Context, con *command.Console, id, after string, output command.Format) error {
	c, err := connect(con)
	if err != nil {
		return err
	}
	q, err := findTarget(ctx, c, id, after)
	if err != nil {
		return err
	}
	return follow(ctx, con, c, q, newReplyPrinter(con, output), con.CommandLine("attach", id))
}

// findTarget finds the thread or, failing that, the run with this id.
func findTarget(ctx context.Context, c *client.Client, id, after string) (client.FollowQuery, error) {
	q := client.FollowQuery{After: after}
	t, err := c.Thread(ctx, id)
	if mailroom.CodeOf(err) == mailroom.CodeNotFound {
		whole, failed := resolveThread(ctx, c, id)
		if failed != nil {
			return q, failed
		}
		if whole != id {
			t, err = c.Thread(ctx, whole)
		}
	}
	// A token for one run may not see the thread, so a refusal also leads to the search for a run.
	if code := mailroom.CodeOf(err); code == mailroom.CodeNotFound || code == mailroom.CodeForbidden {
		run, err := resolveRun(ctx, c, id)
		if err != nil {
			return q, err
		}
		r, err := c.Run(ctx, run)
		if mailroom.CodeOf(err) == mailroom.CodeNotFound {
			return q, command.Errorf(command.ExitFailed, "", "no thread or run %q", id)
		}
		q.Run = r.ID
		return q, err
	}
	if err != nil {
		return q, err
	}
	q.Thread = t.ID
	if after == "" {
		q.After, err = startCursor(ctx, c, t)
	}
	return q, err
}

// startCursor returns the cursor from which the whole reply of t's current or
// latest run follows.
func startCursor(ctx context.Context, c *client.Client, t api.Thread) (string, error) {
	run := t.ActiveRun
	if run == nil {
		run = t.WaitingRun
	}
	if run == nil && t.Status == api.ThreadIdle {
		run = t.LatestRun
	}
	if run == nil { // no run has started yet: follow from the end of the log
		return fmt.Sprint(t.LastSeq), nil
	}
	for first, err := range c.EachEntry(ctx, t.ID,
		client.EntriesQuery{Run: *run, Kinds: []string{entry.KindStarted}, Limit: 1}) {
		return fmt.Sprint(first.Seq - 1), err
	}
	return fmt.Sprint(t.LastSeq), nil // cancelled before it started
}
