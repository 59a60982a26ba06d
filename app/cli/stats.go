package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

// statsOrders returns the orders of the sums of ended runs.
func statsOrders() []string { return []string{"cost", "failed", "delay", "ended", "last", "name"} }

func statsCommand(con *command.Console) *cobra.Command {
	by, order, span := "agent", "cost", "day"
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Sum up the runs that ended, by agent or by a metadata key",
		Long: `Sum up the runs that ended, by agent or by the values of the metadata key that stats_label of the
configuration names. The values of a key are summed up by whole days in UTC: the range day is yesterday
and today.`,
		Example: `  mailroom stats --range week
  mailroom stats --by customer --range week
  mailroom stats --by customer --sort failed -o json`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringVar(&by, "by", by, "agent, label, or the key that stats_label names")
	cmd.Flags().StringVar(&order, "sort", order, "order, the greatest first: "+strings.Join(statsOrders(), ", "))
	cmd.Flags().StringVar(&span, "range", span, "time of the ended runs: "+strings.Join(spans(), ", "))
	completeWords(cmd, "by", []string{"agent", "label"})
	completeWords(cmd, "sort", statsOrders())
	completeWords(cmd, "range", spans())
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		if err := checkWord("--sort", order, statsOrders()); err != nil {
			return err
		}
		sums, err := readSums(cmd.Context(), c, by, span)
		if err != nil {
			return err
		}
		sortSums(sums.Items, order)
		if *output == command.FormatJSON {
			return con.PrintJSON(sums)
		}
		return printSums(con, sums, by)
	})
}

// readSums returns the sums of the runs that ended in a span, by agent or by the label of the server.
func readSums(ctx context.Context, c *client.Client, by, span string) (out api.Sums, err error) {
	q, err := spanQuery(span, time.Now())
	if err != nil {
		return out, err
	}
	if by == "agent" {
		return c.Sums().Ended(ctx, q, by)
	}
	if q.Step == "hour" { // a label is summed up by day
		q.Step, q.From = "day", q.To.Truncate(24*time.Hour).Add(-24*time.Hour)
	}
	out, err = c.Sums().Ended(ctx, q, "label")
	if err == nil && by != "label" && by != out.Label {
		return out, mailroom.Errorf(mailroom.CodeInvalid,
			"the server sums up runs by %q, not by %q; use --by %s or set stats_label", out.Label, by, out.Label)
	}
	return out, err
}

// sortSums sorts sums, the greatest first and equal ones by name.
func sortSums(items []api.SumsItem, order string) {
	slices.SortStableFunc(items, func(a, b api.SumsItem) int {
		return cmp.Compare(sumFor(order, b), sumFor(order, a))
	})
}

// sumFor returns the number by which an order sorts sums, 0 if it is unknown or the order is by something else.
func sumFor(order string, e api.SumsItem) float64 {
	switch order {
	case "cost":
		return e.Sums.CostUSD
	case "failed":
		return ratio(e.Sums.Failed, endedRuns(e.Sums))
	case "delay":
		return ratio(e.Sums.StartDelayMS, e.Sums.Started)
	case "ended":
		return float64(endedRuns(e.Sums))
	case "last":
		if e.LastAt != nil {
			return float64(e.LastAt.Unix())
		}
	}
	return 0
}

// printSums prints the items with ended runs, and the sums of all others.
func printSums(con *command.Console, sums api.Sums, by string) error {
	name := "AGENT"
	if by != "agent" {
		name = strings.ToUpper(sums.Label)
	}
	rows := [][]string{{name, "ENDED", "FAILED", "COST", "DELAY", "LAST"}}
	add := func(name string, item api.SumsItem) {
		if endedRuns(item.Sums) > 0 {
			row := append([]string{name}, endedColumns(con, item)...)
			if by != "agent" && item.LastAt != nil { // the start of the day
				row[len(row)-1] = item.LastAt.Format(time.DateOnly)
			}
			rows = append(rows, row)
		}
	}
	for _, item := range sums.Items {
		add(item.Name, item)
	}
	add("(others)", api.SumsItem{Sums: sums.Others})
	return con.PrintList(rows, nil, "no run ended")
}
