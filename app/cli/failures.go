package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

// manyFailures is the most groups that the server returns, those with the latest failures.
const manyFailures = 500

func failuresCommand(con *command.Console) *cobra.Command {
	q, by, limit := "", "last", 0
	orders := []string{by, "runs"}
	cmd := &cobra.Command{
		Use:   "failures",
		Short: "List failed runs by error",
		Long: `List failed runs by error, the latest failure first: errors that differ only in ids,
numbers, times, sizes, paths, addresses and quoted text are one group. --sort runs puts the
commonest of the 500 latest groups first. Filter fields are those of mailroom runs.`,
		Example: `  mailroom failures
  mailroom failures --filter agent:coder --sort runs
  mailroom failures --filter 'agent:coder created:>2026-11-01'
  mailroom runs --filter group:1f0c86a2d3b94e57
  mailroom run retry --filter group:1f0c86a2d3b94e57`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringVar(&q, "filter", "", "only runs that match")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of groups")
	cmd.Flags().StringVar(&by, "sort", by, "order: "+strings.Join(orders, ", "))
	completeWords(cmd, "sort", orders)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		if err := checkWord("--sort", by, orders); err != nil {
			return err
		}
		most := limit
		if by == "runs" {
			most = manyFailures
		}
		found, err := c.Sums().Failures(cmd.Context(), q, most)
		if err != nil {
			return err
		}
		if by == "runs" {
			slices.SortStableFunc(found.Items, func(a, b api.FailureGroup) int { return cmp.Compare(b.Runs, a.Runs) })
			found.Items = found.Items[:min(max(limit, 1), len(found.Items))]
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
