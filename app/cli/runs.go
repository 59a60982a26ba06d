package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/display"
)

func runsCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "runs",
		SuggestFor: []string{"ps", "jobs"},
		Short:      "List runs, newest first",
		Long: `List runs, newest first, without those that only deliver a reply to a chat or the end of
a child run (--deliveries lists these too). Filter fields: id, status, agent, owner, thread,
parent, class, reason, error, group (of similar errors), key, mode, via, created, finished,
delivery (yes or no) and metadata.NAME. Commas separate alternatives: status:queued,running.`,
		Example: `  mailroom runs
  mailroom runs --filter 'status:failed agent:coder error:"*rate limit*"'
  mailroom runs --filter 'thread:notes -status:completed' --limit 5
  mailroom runs --filter 'status:queued,running class:unavailable'
  mailroom runs --filter status:failed --all -o jsonl
  mailroom runs -o wide
  mailroom runs --filter status:failed --count`,
		Args: cobra.NoArgs,
	}
	deliveries, count, watch := false, false, false
	cmd.Flags().BoolVar(&deliveries, "deliveries", false, "also runs that only deliver what another run said")
	cmd.Flags().BoolVar(&count, "count", false, "print the number of matching runs, exact to 10,000")
	cmd.Flags().BoolVar(&watch, "watch", false, "list again every 2 seconds, until Ctrl-C")
	ours := func(q string) string {
		if !deliveries && !strings.Contains(q, "delivery:") {
			q += " delivery:no"
		}
		return q
	}
	list[api.Run]{
		fetch: func(c *client.Client, ctx context.Context, q client.ListQuery) (api.Page[api.Run], error) {
			q.Q = ours(q.Q)
			return c.Runs(ctx, q)
		},
		header: []string{"RUN", "THREAD", "AGENT", "STATUS", "ATTEMPT", "CREATED", "DETAIL"},
		row: func(r api.Run) []string {
			return []string{
				r.ID, r.Thread, r.Agent, string(r.Status), fmt.Sprint(r.Attempt), con.When(&r.CreatedAt),
				command.Shorten(detail(con, r), 60),
			}
		},
		wide: wideRuns(con),
		what: "runs", none: "no runs yet; start one with `mailroom send hello`",
	}.command(con, cmd, "")
	show := cmd.RunE
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		switch {
		case watch && count:
			return command.UsageErrorf(cmd, "--watch lists, --count counts: use one of them")
		case watch:
			return watchList(cmd.Context(), con, command.IsTerminal(con.Stdout), func() error { return show(cmd, args) })
		case !count:
			return show(cmd, args)
		}
		q, err := cmd.Flags().GetString("filter")
		if err != nil {
			return err
		}
		return printCount(cmd, con, c, ours(q))
	})
}

// wideRuns is the table with what was asked, and what each run took.
func wideRuns(con *command.Console) *table[api.Run] {
	return &table[api.Run]{
		header: []string{
			"MESSAGE", "AGENT", "STATUS", "SENDER", "CREATED", "TOOK", "ATTEMPT", "TOKENS", "COST", "THREAD", "RUN", "DETAIL",
		},
		row: func(r api.Run) []string {
			used, cost := "-", "-"
			r.Reply = nil // it is no detail here
			if r.Usage != nil {
				used = fmt.Sprint(r.Usage.InputTokens + r.Usage.OutputTokens)
				cost = display.Cost(r.Usage.CostUSD, r.Usage.ComputedUSD)
			}
			return []string{
				command.Shorten(cmp.Or(r.Title, "-"), 60), r.Agent, string(r.Status), cmp.Or(r.Origin.Sender, r.Origin.Via),
				con.When(&r.CreatedAt), took(r), fmt.Sprint(r.Attempt), used, cost, r.Thread, r.ID,
				command.Shorten(detail(con, r), 60),
			}
		},
	}
}

// took returns how long a run has worked and waited since it started.
func took(r api.Run) string {
	if r.StartedAt == nil || r.FinishedAt == nil {
		return "-"
	}
	return r.FinishedAt.Sub(*r.StartedAt).Round(time.Millisecond).String()
}

// watchPause is the time between two lists of mailroom runs --watch.
const watchPause = 2 * time.Second

// watchList lists again and again until ctx ends. On a screen each list replaces the one before.
func watchList(ctx context.Context, con *command.Console, screen bool, list func() error) error {
	const clear = "\x1b[H\x1b[2J" // ECMA-48: cursor to the top, erase the screen
	for {
		if screen {
			if err := con.Printf(clear); err != nil {
				return err
			}
		}
		if err := list(); err != nil {
			return err
		}
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// maxCounted is the highest number that mailroom runs --count counts to.
const maxCounted = 10_000

func printCount(cmd *cobra.Command, con *command.Console, c *client.Client, q string) error {
	n, more, err := c.CountRuns(cmd.Context(), q, maxCounted)
	switch {
	case err != nil:
		return err
	case more:
		return con.Printf("%d+\n", n)
	}
	return con.Printf("%d\n", n)
}

func runCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Show, cancel or retry a run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.UsageErrorf(cmd, "missing subcommand: show, cancel or retry")
		},
	}
	cmd.AddCommand(runShowCommand(con), runCancelCommand(con), runRetryCommand(con))
	return cmd
}

func runCancelCommand(con *command.Console) *cobra.Command {
	var children, dry bool
	var q string
	cmd := &cobra.Command{
		Use:        "cancel RUN|THREAD | --filter FILTER",
		SuggestFor: []string{"cancel", "kill"},
		Short:      "Cancel open runs",
		Long: `Cancel a queued or waiting run, or ask a running one to stop; or the current run of a
thread, without the runs in its queue; or all open runs that match a filter. Child runs in
other threads continue unless --children cancels them too.
"mailroom runs --help" lists the filter fields.`,
		Example: `  mailroom run cancel 019f2c6e-5a30-7cc1-b2d4-0a8d8a4c1f6b --children
  mailroom run cancel --filter 'agent:coder created:<2026-11-01' --dry-run`,
		Args: cobra.MaximumNArgs(1),
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().BoolVar(&children, "children", false, "also cancel its open descendants")
	cmd.Flags().StringVar(&q, "filter", "", "cancel all open runs that match")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "with --filter: only count the matching runs")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		many := cmd.Flags().Changed("filter")
		switch {
		case many == (len(args) == 1):
			return command.UsageErrorf(cmd, "name a run or set --filter, not both")
		case many && children, !many && dry:
			return command.UsageErrorf(cmd, "--dry-run goes with --filter, --children with one run")
		case many:
			return cancelMany(cmd.Context(), con, c, api.CancelMany{Q: q, DryRun: dry}, *output)
		}
		id, err := resolveRunOf(cmd.Context(), c, args[0], currentRun)
		if err != nil {
			return err
		}
		cancel := c.CancelRun
		if children {
			cancel = c.CancelTree
		}
		r, err := cancel(cmd.Context(), id)
		if err != nil {
			return err
		}
		return printChanged(con, r, *output)
	})
}

// repeatRequest repeats a request from its cursor until all runs are processed, because the server processes a limited
// number of runs per request.
func repeatRequest(cursor *string, request func() (next *string, err error)) error {
	for {
		next, err := request()
		if err != nil || next == nil {
			return err
		}
		*cursor = *next
	}
}

// cancelMany cancels all runs that match.
func cancelMany(
	ctx context.Context, con *command.Console, c *client.Client, in api.CancelMany, output command.Format,
) error {
	var all api.CancelledMany
	err := repeatRequest(&in.Cursor, func() (*string, error) {
		part, err := c.CancelRuns(ctx, in)
		all.Matched += part.Matched
		all.Cancelled += part.Cancelled
		return part.Next, err
	})
	if err != nil {
		return err
	}
	if output == command.FormatJSON {
		return con.PrintJSON(all)
	}
	if in.DryRun {
		con.Infof("dry run: without --dry-run these runs are cancelled")
	}
	return con.PrintTable([][]string{{"matched", fmt.Sprint(all.Matched)}, {"cancelled", fmt.Sprint(all.Cancelled)}})
}

func runRetryCommand(con *command.Console) *cobra.Command {
	var fresh, same, dry bool
	var q string
	cmd := &cobra.Command{
		Use:        "retry RUN|THREAD | --filter FILTER",
		SuggestFor: []string{"retry"},
		Short:      "Queue failed or cancelled runs again",
		Long: `Queue a failed or cancelled run again, or the latest run of a thread, or all that match a filter. "mailroom runs --help"
lists the filter fields.`,
		Example: `  mailroom run retry 019f2c6e-5a30-7cc1-b2d4-0a8d8a4c1f6b --fresh
  mailroom run retry --filter 'status:failed error:"*rate limit*"' --dry-run
  mailroom run retry --filter 'status:failed error:"*rate limit*"'`,
		Args: cobra.MaximumNArgs(1),
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().BoolVar(&fresh, "fresh", false, "discard the run's progress and start over")
	cmd.Flags().BoolVar(&same, "same-version", false, "keep the run's agent version (default: the current version)")
	cmd.Flags().StringVar(&q, "filter", "", "retry all failed or cancelled runs that match")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "with --filter: only count the matching runs")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		many := cmd.Flags().Changed("filter")
		switch {
		case many == (len(args) == 1):
			return command.UsageErrorf(cmd, "name a run or set --filter, not both")
		case many && (fresh || same), !many && dry:
			return command.UsageErrorf(cmd, "--dry-run goes with --filter, --fresh and --same-version with one run")
		case many:
			return retryMany(cmd.Context(), con, c, api.RetryMany{Q: q, DryRun: dry}, *output)
		}
		in := api.Retry{Fresh: fresh}
		if same {
			in.AgentVersion = "same"
		}
		id, err := resolveRunOf(cmd.Context(), c, args[0], latestRun)
		if err != nil {
			return err
		}
		r, err := c.RetryRun(cmd.Context(), id, in)
		if err != nil {
			return err
		}
		return printChanged(con, r, *output)
	})
}

// retryMany queues all runs that match again.
func retryMany(
	ctx context.Context, con *command.Console, c *client.Client, in api.RetryMany, output command.Format,
) error {
	var all api.Retried
	err := repeatRequest(&in.Cursor, func() (*string, error) {
		part, err := c.RetryRuns(ctx, in)
		all.Matched += part.Matched
		all.Retried += part.Retried
		return part.Next, err
	})
	if err != nil {
		return err
	}
	return printRetried(con, all, in.DryRun, output)
}

// printChanged prints a run that was cancelled or queued again.
func printChanged(con *command.Console, r api.Run, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(r)
	}
	return con.PrintTable([][]string{{r.ID, status(r)}})
}

func status(r api.Run) string {
	if r.Stopping {
		return string(r.Status) + ", stopping"
	}
	return string(r.Status)
}

// detail returns the most useful fact about a run beside its status.
func detail(con *command.Console, r api.Run) string {
	switch {
	case r.Error != nil:
		return fmt.Sprintf("%s: %s", r.Error.Class, r.Error.Message)
	case r.LastError != nil:
		return fmt.Sprintf("retry at %s after %s: %s", con.When(&r.AvailableAt), r.LastError.Class, r.LastError.Message)
	case r.Reason != nil:
		return string(*r.Reason)
	case len(r.WaitsFor) > 0:
		return "waits for " + r.WaitsFor[len(r.WaitsFor)-1].Text
	case !r.Status.Finished() && r.Progress > 0:
		return percent(r.Progress) + " done"
	case r.Reply != nil:
		return *r.Reply
	}
	return "-"
}

func percent(part float64) string { return fmt.Sprintf("%.0f%%", 100*part) }

// waitsFor formats what an open run waits for: what keeps it, and after "<" what keeps the run before it.
func waitsFor(con *command.Console, r api.Run) string {
	if len(r.WaitsFor) > 0 {
		var all []string
		for _, b := range r.WaitsFor {
			text := b.Text
			if b.Run != "" {
				text += " (" + b.Run + ")"
			}
			if b.Until != nil {
				text += ", until " + con.When(b.Until)
			}
			all = append(all, text)
		}
		return strings.Join(all, " < ")
	}
	switch {
	case r.WaitsOn != nil:
		return r.WaitsOn.Text + ", since " + r.WaitsOn.Since.Local().Format(time.DateTime)
	case r.Wait == nil: // of an older server
		return "-"
	}
	return r.Wait.Until + " of " + strings.Join(r.Wait.Tickets, " ")
}

func usage(u *api.Usage) string {
	if u == nil || *u == (api.Usage{}) {
		return "-"
	}
	in, out := fmt.Sprintf("%d tokens in", u.InputTokens), fmt.Sprintf("%d out", u.OutputTokens)
	if u.CacheReadTokens > 0 {
		in += fmt.Sprintf(" (%d from the cache)", u.CacheReadTokens)
	}
	if u.ReasoningTokens > 0 {
		out += fmt.Sprintf(" (%d to reason)", u.ReasoningTokens)
	}
	cost := display.Cost(u.CostUSD, u.ComputedUSD)
	return strings.Join(slices.DeleteFunc([]string{in, out, cost, u.Model},
		func(s string) bool { return s == "" }), ", ")
}

// agentLabel returns an agent's name with its version, if known.
func agentLabel(agent string, version *string) string {
	if version == nil {
		return agent
	}
	return agent + " " + *version
}

func printRetried(con *command.Console, r api.Retried, dry bool, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(r)
	}
	rows := [][]string{{"matched", fmt.Sprint(r.Matched)}, {"retried", fmt.Sprint(r.Retried)}}
	if dry {
		con.Infof("dry run: without --dry-run these runs are queued again")
	}
	return con.PrintTable(rows)
}
