package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

func agentsCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the agents that messages can be sent to",
		Example: `  mailroom agents
  mailroom agents -o json`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		agents, err := c.Agents(cmd.Context())
		if err != nil {
			return err
		}
		return printAgents(con, agents, *output)
	})
}

func workersCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List the processes that run agents",
		Example: `  mailroom workers
  mailroom workers -o json`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		workers, err := c.Workers(cmd.Context())
		if err != nil {
			return err
		}
		return printWorkers(con, workers, *output)
	})
}

func printAgents(con *command.Console, agents []api.Agent, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(api.Page[api.Agent]{Items: agents})
	}
	rows := [][]string{{"AGENT", "KIND", "VERSION", "PROGRAM", "AVAILABLE", "WORKERS", "RUNNING", "QUEUED", "WAITING",
		"ISOLATION", "RETRIES"}}
	for _, a := range agents {
		available := "yes"
		if !a.Available {
			available = "no: " + deref(a.Reason)
		}
		if a.Paused != nil {
			available = "paused by " + a.Paused.By + ", " + con.When(&a.Paused.At)
			if a.Paused.Probe != nil {
				available += ", probes " + con.When(a.Paused.Probe)
			}
			if a.Paused.Reason != "" {
				available += ": " + command.Shorten(a.Paused.Reason, 60)
			}
		}
		rows = append(rows,
			[]string{a.Name, orDash(a.Kind), orDash(a.Version), orDash(a.Program), available, fmt.Sprint(a.Workers),
				fmt.Sprint(a.Running), fmt.Sprint(a.Queued), fmt.Sprint(a.Waiting), orDash(a.Isolation), retries(a.Retry)})
	}
	return con.PrintList(rows, nil, "no agents")
}

// retries describes how the runs of an agent are retried, such as "5 attempts, 250ms to 30s, 3 crashes". It returns
// "" for a server of an older version, whose answer has no retry policy.
func retries(r *api.AgentRetry) string {
	if r == nil {
		return "-"
	}
	text := fmt.Sprintf("%d attempts, %s to %s, %d crashes", r.Attempts, r.First, r.Most, r.MaxCrashes)
	for _, of := range []struct {
		class string
		exits []int
	}{{"permanent", r.PermanentExits}, {"unavailable", r.UnavailableExits}} {
		if len(of.exits) > 0 {
			text += fmt.Sprintf(", %s: exit %s", of.class, strings.Trim(fmt.Sprint(of.exits), "[]"))
		}
	}
	return text
}

func printWorkers(con *command.Console, workers []api.Worker, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(api.Page[api.Worker]{Items: workers})
	}
	rows := [][]string{{"WORKER", "HOST", "PID", "RUNNING", "LEASE UNTIL", "DUTIES", "AGENTS"}}
	for _, w := range workers {
		rows = append(rows, []string{
			w.ID, w.Host, fmt.Sprint(w.PID), fmt.Sprint(w.Running), con.When(&w.LeaseUntil),
			cmp.Or(strings.Join(w.Duties, " "), "-"), strings.Join(w.Agents, " "),
		})
	}
	return con.PrintList(rows, nil, "no workers")
}
