package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	watch "mailroom/channel/tracker"
	"mailroom/client"
	"mailroom/cmd/internal/bd"
	"mailroom/internal/config"
	"mailroom/internal/console"
	"mailroom/internal/display"
	"mailroom/internal/endpoint"
	"mailroom/tracker"
)

// issueCommand runs the tracker. bd parses its arguments.
func issueCommand(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "issue …",
		Short: "Manage issues in a file (same as bd)",
		Long: `Manage issues in a file under version control. This command is the same as bd; see
"mailroom issue --help" for its commands. It needs no server. If a server gave the issue
to an agent, "mailroom issue show" also shows the run.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			bd.ShortLived()
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			t := bd.Main{
				Stdin: con.Stdin, Stdout: con.Stdout, Stderr: con.Stderr, Env: con.Env, Dir: dir, Name: "issue", Version: version().Version,
				RunOf: func(ctx context.Context, it *tracker.Issue) *bd.Run { return runOfIssue(ctx, con, it) },
			}
			if t.Run(cmd.Context(), args) != console.ExitDone {
				return &console.PrintedError{Code: console.ExitFailed, Reason: "the command failed"}
			}
			return nil
		},
	}
}

// issueRunTimeout limits the request for the run of an issue, so that an unreachable server
// does not delay the command.
const issueRunTimeout = time.Second

// runOfIssue returns the run of an issue that was given to an agent. The run is optional
// output, so any error means nil.
func runOfIssue(ctx context.Context, con *console.Console, it *tracker.Issue) *bd.Run {
	thread, key := watch.LastSubmit(config.TrackerChannel, it)
	if key == "" {
		return nil
	}
	server, err := endpoint.Find(con)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, issueRunTimeout)
	defer cancel()
	page, err := server.Client().Runs(ctx, client.ListQuery{Q: "thread:" + client.Quote(thread) + " key:" + client.Quote(key), Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return nil
	}
	run := page.Items[0]
	raw, err := json.Marshal(run)
	if err != nil {
		return nil
	}
	return &bd.Run{Lines: runLines(con, run), JSON: raw}
}

// runLines formats the run of an issue, with commands that show more.
func runLines(con *console.Console, run api.Run) []string {
	lines := []string{fmt.Sprintf("Run %s of %s: %s, attempt %d", run.ID, run.Agent, run.Status, run.Attempt)}
	if first, _, _ := strings.Cut(strings.TrimSpace(deref(run.Reply)), "\n"); first != "" {
		lines = append(lines, "  reply: "+console.Shorten(first, 100))
	}
	if run.Error != nil {
		lines = append(lines, fmt.Sprintf("  %s: %s", run.Error.Class, display.Line(run.Error.Message)))
	}
	switch run.Status {
	case mailroom.StatusWaiting:
		lines = append(lines, "  waits for a decision: "+con.CommandLine("tickets"))
	case mailroom.StatusFailed, mailroom.StatusCancelled:
		lines = append(lines, "  retry: "+con.CommandLine("run", "retry", run.ID))
	}
	return append(lines, "  show: "+con.CommandLine("attach", run.Thread))
}
