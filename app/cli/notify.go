package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

// Notify returns the command that lists the targets and rules of alerts, and its commands.
func Notify(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "List where alerts go and what causes them, test and pause targets",
		Long: `List the targets of alerts and the rules that select what each of them gets.

WAITING counts alerts that are not sent yet, also those of single browsers and tokens; AGE
is the time since the oldest of them.
Add a target with "mailroom notify add". The runs that send alerts are in the thread
alert:NAME; those that failed can be retried there.`,
		Example: `  mailroom notify
  mailroom notify add ntfy --name phone
  mailroom notify test phone
  mailroom notify pause phone`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(testTargetCommand(con), pauseTargetCommand(con), resumeTargetCommand(con))
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		alerts, err := c.Accounts().Alerts(cmd.Context())
		if err != nil {
			return err
		}
		return printAlerts(con, alerts, *output)
	})
}

func printAlerts(con *command.Console, alerts api.Alerts, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(alerts)
	}
	rows := [][]string{{"TARGET", "KIND", "STATE", "DECIDES", "WAITING", "AGE", "LAST ERROR"}}
	for _, t := range alerts.Targets {
		state, age, trouble := "on", "-", "-"
		if t.Paused {
			state = "paused"
		}
		if t.Oldest != nil {
			age = time.Since(*t.Oldest).Round(time.Second).String()
		}
		if t.LastError != nil {
			trouble = command.Shorten(*t.LastError, 100)
		}
		decides := "no"
		if t.Decide {
			decides = "yes"
		}
		rows = append(rows, []string{t.Name, t.Kind, state, decides, fmt.Sprint(t.Waiting), age, trouble})
	}
	if err := con.PrintList(rows, nil, "no targets: add one with `mailroom notify add`"); err != nil ||
		len(alerts.Targets) == 0 {
		return err
	}
	rows = [][]string{{"RULE", "WHEN", "TO", "ONLY", "TEXT", "QUIET", "DIGEST", "REMIND", "ZONE"}}
	for _, r := range alerts.Rules {
		only := strings.Join(append(append([]string{}, r.Agents...), r.Threads...), ", ")
		rows = append(rows,
			[]string{r.Name, strings.Join(r.When, ", "), strings.Join(r.To, ", then "), dashIfEmpty(only), r.Text,
				dashIfEmpty(r.Quiet), dashIfEmpty(r.Digest), dashIfEmpty(r.Remind), r.Zone})
	}
	if err := con.Printf("\n"); err != nil {
		return err
	}
	return con.PrintList(rows, nil, "no rules: no event causes an alert; add a table [rules.NAME] to mailroom.toml")
}

func dashIfEmpty(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// testTimeout is how long a test waits for the target.
const testTimeout = time.Minute

func testTargetCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "test TARGET",
		Short:   "Send a test message, and say whether the target took it",
		Example: `  mailroom notify test phone`,
		Args:    cobra.ExactArgs(1),
	}
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		tested, err := c.Accounts().TestAlert(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return waitTested(cmd.Context(), con, c, args[0], tested.Run)
	})
}

func waitTested(ctx context.Context, con *command.Console, c *client.Client, target, id string) error {
	run, err := c.WaitRun(ctx, id, testTimeout)
	switch {
	case err != nil:
		return err
	case run.Status == mailroom.StatusCompleted:
		con.Infof("target %s took the message", target)
		return nil
	case run.Status.Finished():
		why := "it was " + string(run.Status)
		if run.Error != nil {
			why = run.Error.Message
		}
		return command.Errorf(command.ExitFailed, "correct its table in mailroom.toml, and restart the server",
			"target %s did not take the message: %s", target, why)
	}
	return command.Errorf(command.ExitFailed, con.CommandLine("notify")+" shows what waits",
		"target %s has not taken the message yet", target)
}

func pauseTargetCommand(con *command.Console) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:     "pause TARGET",
		Short:   "Send no alerts to a target until it is resumed; they wait",
		Example: `  mailroom notify pause phone --reason holidays`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "shown to everyone who lists the targets")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		if _, err := c.PauseAgent(cmd.Context(), alertAgent+args[0], reason); err != nil {
			return err
		}
		con.Infof("paused %s; resume it with: %s", args[0], con.CommandLine("notify", "resume", args[0]))
		return nil
	})
}

// alertAgent begins the name of the agent that sends the alerts of a target.
const alertAgent = "alert:"

func resumeTargetCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume TARGET",
		Short:   "Send the waiting alerts of a paused target",
		Example: `  mailroom notify resume phone`,
		Args:    cobra.ExactArgs(1),
	}
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		if err := c.ResumeAgent(cmd.Context(), alertAgent+args[0]); err != nil {
			return err
		}
		con.Infof("resumed %s", args[0])
		return nil
	})
}
