package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

func budgetCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Show what agents and tokens may use in a day or a month",
		Long: `Show what agents and tokens may use in a day or a month, what is left of it, and which
question about it is open. An agent has a budget in the configuration, a token one of its
own. A spent one stops nothing that works; the rest waits for the next day or month.`,
		Example: `  mailroom budget
  mailroom budget raise agent:coder day 5usd`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.AddCommand(budgetRaiseCommand(con))
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		all, err := c.Accounts().Budgets(cmd.Context())
		if err != nil {
			return err
		}
		return printBudgets(con, all, *output)
	})
}

func budgetRaiseCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "raise agent:NAME|owner:NAME day|month AMOUNT",
		Short: "Add to a budget until its day or month ends",
		Long: `Add to the budget of an agent, or of a token as the owner of threads, until its day or
month ends. Runs that wait for it start at once. The configured budget stays as it is.`,
		Example: `  mailroom budget raise agent:coder day 5usd
  mailroom budget raise owner:alice month "20usd, 5m tokens"`,
		Args: cobra.ExactArgs(3),
	}
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		kind, name, ok := strings.Cut(args[0], ":")
		if !ok {
			return command.Errorf(command.ExitUsage, "write agent:NAME or owner:NAME", "invalid scope %q", args[0])
		}
		in := api.RaiseBudget{Kind: kind, Name: name, Period: args[1], By: args[2]}
		b, err := c.Accounts().RaiseBudget(cmd.Context(), in)
		if err != nil {
			return err
		}
		return printBudgets(con, []api.PeriodBudget{b}, *output)
	})
}

func printBudgets(con *command.Console, items []api.PeriodBudget, format command.Format) error {
	switch format {
	case command.FormatJSON:
		return con.PrintJSON(struct {
			Items []api.PeriodBudget `json:"items"`
		}{items})
	case command.FormatJSONLines:
		for _, b := range items {
			if err := con.PrintJSON(b); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]string{{"BUDGET", "PERIOD", "LIMIT", "USED", "LEFT", "RAISED", "STATE", "UNTIL", "QUESTION"}}
	for _, b := range items {
		rows = append(rows, []string{b.Kind + ":" + b.Name, b.Period, amountsText(b.Budget), amountsText(b.Used),
			amountsText(b.Left), amountsText(b.Raised), b.State, periodEnd(b), cmp.Or(b.Question, "-")})
	}
	return con.PrintList(rows, nil, `no budgets: set budget = { day = "5usd" } in the table of an agent`)
}

// amountsText returns amounts as people write them.
func amountsText(a api.Amounts) string {
	of := mailroom.Dollars(a.USD)
	of.Tokens, of.Turns = a.Tokens, a.Turns
	if of == (mailroom.Amounts{}) {
		return "-"
	}
	return of.String()
}

// periodEnd returns when the next day or month of a budget begins, in its zone.
func periodEnd(b api.PeriodBudget) string {
	zone, err := time.LoadLocation(b.Zone)
	if err != nil {
		zone = time.UTC
	}
	return fmt.Sprintf("%s %s", b.End.In(zone).Format("2006-01-02 15:04"), b.Zone)
}
