package main

import (
	"context"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/client"
	"mailroom/internal/console"
)

func runsCommand(con *console.Console) *cobra.Command {
	q := client.ListQuery{}
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List runs, newest first",
		Long: `List runs, newest first. Filter fields: status, agent, thread, parent, class, reason,
error, key, mode, via, created, finished and metadata.NAME.`,
		Example: `  mailroom runs
  mailroom runs --filter 'status:failed agent:coder error:"*rate limit*"'
  mailroom runs --filter 'thread:notes -status:completed' --limit 5`,
		Args: cobra.NoArgs,
	}
	output := console.FormatFlag(cmd)
	listFlags(cmd, &q, "")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		page, err := c.Runs(cmd.Context(), q)
		if err != nil {
			return err
		}
		return printRuns(con, page, *output)
	})
}

func runCommand(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Show, cancel or retry a run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return console.UsageErrorf(cmd, "missing subcommand: show, cancel or retry")
		},
	}
	cmd.AddCommand(runShowCommand(con), runCancelCommand(con), runRetryCommand(con))
	return cmd
}

func runShowCommand(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show RUN",
		Short:   "Show a run",
		Example: `  mailroom run show 019f2c6e-5a30-7cc1-b2d4-0a8d8a4c1f6b`,
		Args:    cobra.ExactArgs(1),
	}
	output := console.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		r, err := c.Run(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printRun(con, r, *output)
	})
}

func runCancelCommand(con *console.Console) *cobra.Command {
	children := false
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run",
		Long: `Cancel a queued or waiting run, or ask a running one to stop. Its child runs in other
threads continue unless --children cancels them too.`,
		Example: `  mailroom run cancel 019f2c6e-5a30-7cc1-b2d4-0a8d8a4c1f6b --children`,
		Args:    cobra.ExactArgs(1),
	}
	output := console.FormatFlag(cmd)
	cmd.Flags().BoolVar(&children, "children", false, "also cancel its open descendants")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		cancel := c.CancelRun
		if children {
			cancel = c.CancelTree
		}
		r, err := cancel(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printChanged(con, r, *output)
	})
}

func runRetryCommand(con *console.Console) *cobra.Command {
	var fresh, same, dry bool
	var q string
	cmd := &cobra.Command{
		Use:   "retry RUN | --filter FILTER",
		Short: "Queue failed or cancelled runs again",
		Long: `Queue a failed or cancelled run again, or all that match a filter. "mailroom runs --help"
lists the filter fields.`,
		Example: `  mailroom run retry 019f2c6e-5a30-7cc1-b2d4-0a8d8a4c1f6b --fresh
  mailroom run retry --filter 'status:failed error:"*rate limit*"' --dry-run
  mailroom run retry --filter 'status:failed error:"*rate limit*"'`,
		Args: cobra.MaximumNArgs(1),
	}
	output := console.FormatFlag(cmd)
	cmd.Flags().BoolVar(&fresh, "fresh", false, "discard the run's progress and start over")
	cmd.Flags().BoolVar(&same, "same-version", false, "keep the run's agent version (default: the current version)")
	cmd.Flags().StringVar(&q, "filter", "", "retry all failed or cancelled runs that match")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "with --filter: only count the matching runs")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		many := cmd.Flags().Changed("filter")
		switch {
		case many == (len(args) == 1):
			return console.UsageErrorf(cmd, "name a run or set --filter, not both")
		case many && (fresh || same), !many && dry:
			return console.UsageErrorf(cmd, "--dry-run goes with --filter, --fresh and --same-version with one run")
		case many:
			return retryMany(cmd.Context(), con, c, api.RetryMany{Q: q, DryRun: dry}, *output)
		}
		in := api.Retry{Fresh: fresh}
		if same {
			in.AgentVersion = "same"
		}
		r, err := c.RetryRun(cmd.Context(), args[0], in)
		if err != nil {
			return err
		}
		return printChanged(con, r, *output)
	})
}

// retryMany repeats the request until all runs are processed, because the server
// processes a limited number of runs per request.
func retryMany(ctx context.Context, con *console.Console, c *client.Client, in api.RetryMany, output console.Format) error {
	var all api.Retried
	for {
		part, err := c.RetryRuns(ctx, in)
		if err != nil {
			return err
		}
		all.Matched += part.Matched
		all.Retried += part.Retried
		if part.Next == nil {
			return printRetried(con, all, in.DryRun, output)
		}
		in.Cursor = *part.Next
	}
}
