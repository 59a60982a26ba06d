package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
		Short: "Show what agents, tokens and threads may use",
		Long: `Show what agents, tokens and threads may use in a day or a month, what is left of it, and
which question about it is open. An agent has a budget in the configuration, a token one of
its own, and a thread the one that was set, also for its whole life. Once one is spent, what
it bounds waits for the next day or month, or for a raise.`,
		Example: `  mailroom budget
  mailroom budget set thread:trip day 1usd
  mailroom budget raise agent:coder day 5usd`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.AddCommand(budgetSetCommand(con), budgetRemoveCommand(con), budgetRaiseCommand(con))
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
		Use:   "raise agent:NAME|owner:NAME|thread:ID day|month|life AMOUNT",
		Short: "Add to a budget until its day or month ends",
		Long: `Add to the budget of an agent, of a token as the owner of threads, or of a thread, until its
day or month ends. Runs that wait for it start at once. The budget of the next day or month
stays as it is. It needs a token with the scope admin.`,
		Example: `  mailroom budget raise agent:coder day 5usd
  mailroom budget raise owner:alice month "20usd, 5m tokens"`,
		Args: cobra.ExactArgs(3),
	}
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		kind, name, ok := strings.Cut(args[0], ":")
		if !ok {
			return command.Errorf(command.ExitUsage, "write agent:NAME, owner:NAME or thread:ID", "invalid scope %q", args[0])
		}
		in := api.RaiseBudget{Kind: kind, Name: name, Period: args[1], By: args[2]}
		b, err := c.Accounts().RaiseBudget(cmd.Context(), in)
		if err != nil {
			return err
		}
		return printBudgets(con, []api.PeriodBudget{b}, *output)
	})
}

func budgetSetCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set thread:ID day|month|life AMOUNT",
		Short: "Set what the runs of a thread may use",
		Long: `Set what the runs of a thread may use in a day, in a month, or in the life of the thread.
What they have used since an earlier budget of that period was set still counts. Once it is
spent, the run at work stops after its call of a model, and the runs of the thread wait. The
owner of the thread and the operator may do it, but no limited token.`,
		Example: `  mailroom budget set thread:trip day 1usd
  mailroom budget set thread:task-7 life "5usd, 2m tokens"`,
		Args: cobra.ExactArgs(3),
	}
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		return setBudget(cmd.Context(), con, c, args[0], args[1], args[2])
	})
}

func budgetRemoveCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove thread:ID day|month|life",
		Short:   "Remove a budget of a thread",
		Long:    `Remove a budget of a thread. Runs that wait for it start at once.`,
		Example: `  mailroom budget remove thread:trip day`,
		Args:    cobra.ExactArgs(2),
	}
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		return setBudget(cmd.Context(), con, c, args[0], args[1], "")
	})
}

// setBudget changes a budget of a thread; an empty amount removes it.
func setBudget(ctx context.Context, con *command.Console, c *client.Client, scope, period, amount string) error {
	kind, id, ok := strings.Cut(scope, ":")
	switch {
	case kind == "agent" && ok:
		return command.Errorf(command.ExitUsage, `write budget = { day = "5usd" } in the table of the agent`,
			"the budget of an agent is set in the configuration")
	case kind == "owner" && ok:
		return command.Errorf(command.ExitUsage, "give it with mailroom token create --budget day=5usd",
			"the budget of a token is set when it is created")
	case kind != "thread" || id == "":
		return command.Errorf(command.ExitUsage, "write thread:"+scope, "invalid scope %q", scope)
	}
	var b api.ThreadBudgets
	switch period {
	case "day":
		b.Day = &amount
	case "month":
		b.Month = &amount
	case "life":
		b.Life = &amount
	default:
		return command.Errorf(command.ExitUsage, "use day, month or life", "unknown period %q", period)
	}
	if _, err := c.PatchThread(ctx, id, api.ThreadPatch{Budget: &b}); err != nil {
		return err
	}
	if amount == "" {
		return con.Printf("the runs of thread %s have no budget of a %s\n", id, period)
	}
	all, err := c.Accounts().Budgets(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(b api.PeriodBudget) bool { return b.Kind != kind || b.Name != id })
	return printBudgets(con, all, command.FormatText)
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
	if b.Period == "life" {
		return "-"
	}
	zone, err := time.LoadLocation(b.Zone)
	if err != nil {
		zone = time.UTC
	}
	return fmt.Sprintf("%s %s", b.End.In(zone).Format("2006-01-02 15:04"), b.Zone)
}
