package main

import (
	"github.com/spf13/cobra"

	"mailroom/client"
)

func (m *Main) agentsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the agents that messages can be sent to",
		Example: `  mailroom agents
  mailroom agents -o json`,
		Args: cobra.NoArgs,
	}
	output := formatFlag(cmd)
	return m.withClient(cmd, func(c *client.Client, _ []string) error {
		agents, err := c.Agents(cmd.Context())
		if err != nil {
			return err
		}
		return m.printAgents(agents, *output)
	})
}

func (m *Main) workersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List the processes that run agents",
		Example: `  mailroom workers
  mailroom workers -o json`,
		Args: cobra.NoArgs,
	}
	output := formatFlag(cmd)
	return m.withClient(cmd, func(c *client.Client, _ []string) error {
		workers, err := c.Workers(cmd.Context())
		if err != nil {
			return err
		}
		return m.printWorkers(workers, *output)
	})
}
