package main

import (
	"github.com/spf13/cobra"

	"mailroom/client"
	"mailroom/internal/console"
)

func agentsCommand(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the agents that messages can be sent to",
		Example: `  mailroom agents
  mailroom agents -o json`,
		Args: cobra.NoArgs,
	}
	output := console.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		agents, err := c.Agents(cmd.Context())
		if err != nil {
			return err
		}
		return printAgents(con, agents, *output)
	})
}

func workersCommand(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List the processes that run agents",
		Example: `  mailroom workers
  mailroom workers -o json`,
		Args: cobra.NoArgs,
	}
	output := console.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		workers, err := c.Workers(cmd.Context())
		if err != nil {
			return err
		}
		return printWorkers(con, workers, *output)
	})
}
