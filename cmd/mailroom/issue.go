package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"mailroom/app/cli"
	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/internal/version"
	"mailroom/issues/bd"
	"mailroom/issues/board/github"
	"mailroom/issues/board/linear"
	"mailroom/issues/feed"
	"mailroom/issues/tracker"
)

// issueCommand returns the command that runs the tracker. Package bd parses its arguments.
func issueCommand(con *command.Console) *cobra.Command {
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
				Stdin: con.Stdin, Stdout: con.Stdout, Stderr: con.Stderr, Env: con.Env, Dir: dir, Name: "mailroom issue",
				Version: version.Read().Version,
				Sources: map[string]bd.Source{github.Kind: github.Export, linear.Kind: linear.Export},
				RunOf:   func(ctx context.Context, it *tracker.Issue) *bd.Run { return runOfIssue(ctx, con, it) },
			}
			if code := t.Run(cmd.Context(), args); code != command.ExitDone {
				return &command.PrintedError{Code: code, Reason: "the command failed"}
			}
			return nil
		},
	}
}

// runOfIssue returns the run of an issue that was given to an agent, or nil.
func runOfIssue(ctx context.Context, con *command.Console, it *tracker.Issue) *bd.Run {
	thread, key := feed.LastSubmit(config.TrackerChannel, it)
	if key == "" {
		return nil
	}
	lines, raw := cli.RunByKey(ctx, con, thread, key)
	if raw == nil {
		return nil
	}
	return &bd.Run{Lines: lines, JSON: raw}
}
