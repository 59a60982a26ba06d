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
	by, span := "name", "day"
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the agents that messages can be sent to",
		Long: `List the agents that messages can be sent to. With the scope metrics it also shows the runs that ended in
the last day, or in another range: how many there were, the share that failed for good, their cost, the
average delay until they started, and when a run ended last. --sort puts the greatest first.`,
		Example: `  mailroom agents
  mailroom agents --sort failed
  mailroom agents --sort cost --range week
  mailroom agents -o wide`,
		Args: cobra.NoArgs,
	}
	output := command.ListFormatFlag(cmd, true)
	cmd.Flags().StringVar(&by, "sort", by, "order: "+strings.Join(agentOrders(), ", "))
	cmd.Flags().StringVar(&span, "range", span, "time of the ended runs: "+strings.Join(spans(), ", "))
	completeWords(cmd, "sort", agentOrders())
	completeWords(cmd, "range", spans())
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		if err := checkWord("--sort", by, agentOrders()); err != nil {
			return err
		}
		ended, err := readEnded(cmd.Context(), c, span)
		if err != nil {
			return err
		}
		agents, err := c.Agents(cmd.Context())
		if err != nil {
			return err
		}
		if err := sortAgents(agents, ended, by); err != nil {
			return err
		}
		return printAgents(con, agents, ended, *output)
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

// printAgents prints agents, and of each the sums of its ended runs. A nil ended has none.
func printAgents(con *command.Console, agents []api.Agent, ended *api.Sums, output command.Format) error {
	switch output {
	case command.FormatJSON:
		return con.PrintJSON(struct {
			Items []api.Agent `json:"items"`
			Ended *api.Sums   `json:"ended,omitempty"`
		}{agents, ended})
	case command.FormatJSONLines:
		for _, a := range agents {
			if err := con.PrintJSON(a); err != nil {
				return err
			}
		}
		return nil
	}
	wide := output == command.FormatWide
	header := []string{"AGENT", "KIND", "VERSION", "PROGRAM", "AVAILABLE", "WORKERS", "RUNNING", "QUEUED", "WAITING",
		"ENDED", "FAILED", "COST", "DELAY", "LAST"}
	if wide {
		header = append(header, "ISOLATION", "RETRIES")
	}
	rows := [][]string{header}
	of := endedOf(ended)
	for _, a := range agents {
		row := []string{a.Name, orDash(a.Kind), orDash(a.Version), orDash(a.Program), availability(con, a),
			fmt.Sprint(a.Workers), fmt.Sprint(a.Running), fmt.Sprint(a.Queued), fmt.Sprint(a.Waiting)}
		row = append(row, endedColumns(con, of[a.Name])...)
		if wide {
			row = append(row, orDash(a.Isolation), retries(a.Retry))
		}
		rows = append(rows, row)
	}
	return con.PrintList(rows, nil, "no agents")
}

func availability(con *command.Console, a api.Agent) string {
	if a.Paused == nil {
		if a.Available {
			return "yes" + notOn(con, a.PausedOn)
		}
		return "no: " + deref(a.Reason)
	}
	text := "paused by " + a.Paused.By + ", " + con.When(&a.Paused.At)
	if a.Paused.Probe != nil {
		text += ", probes " + con.When(a.Paused.Probe)
	}
	if a.Paused.Reason != "" {
		text += ": " + command.Shorten(a.Paused.Reason, 60)
	}
	return text
}

// notOn names the workers that cannot work for an agent, such as ", not on laptop, probes in 2m: no login".
func notOn(con *command.Console, workers []api.PausedOn) (text string) {
	for _, w := range workers {
		text += ", not on " + command.Shorten(cmp.Or(w.Host, w.Worker), 40)
		if w.Probe != nil {
			text += ", probes " + con.When(w.Probe)
		}
		text += ": " + command.Shorten(w.Reason, 60)
	}
	return text
}

// retries describes how the runs of an agent are retried, such as "5 attempts, 5s to 10m, 3 crashes". It returns
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
