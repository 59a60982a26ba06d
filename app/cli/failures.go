package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/client"
)

func failuresCommand(con *command.Console) *cobra.Command {
	q, limit := "", 0
	cmd := &cobra.Command{
		Use:   "failures",
		Short: "List failed runs by error",
		Long: `List failed runs by error, the latest failure first: errors that differ only in ids,
numbers, times, sizes, paths, addresses and quoted text are one group. Filter fields are those of
mailroom runs.`,
		Example: `  mailroom failures
  mailroom failures --filter 'agent:coder created:>2026-11-01'
  mailroom runs --filter group:1f0c86a2d3b94e57
  mailroom run retry --filter group:1f0c86a2d3b94e57`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringVar(&q, "filter", "", "only runs that match")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of groups")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		found, err := c.Sums().Failures(cmd.Context(), q, limit)
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(found)
		}
		rows := [][]string{{"GROUP", "RUNS", "FIRST", "LAST", "AGENTS", "ERROR"}}
		for _, g := range found.Items {
			rows = append(rows,
				[]string{g.Group, fmt.Sprint(g.Runs), con.When(&g.FirstAt), con.When(&g.LastAt), strings.Join(g.Agents, ", "),
					command.Shorten(g.Message, 80)})
		}
		if err := con.PrintList(rows, nil, noFailures(q)); err != nil {
			return err
		}
		if found.LookedTo != nil {
			con.Infof("older failures, before about %s, are not counted", con.When(found.LookedTo))
		}
		return nil
	})
}

func noFailures(q string) string {
	if q != "" {
		return "no failed runs match"
	}
	return "no failed runs"
}
