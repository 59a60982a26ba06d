package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

func agentCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Pause, resume or drain an agent",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.UsageErrorf(cmd, "missing subcommand: pause, resume or drain")
		},
	}
	cmd.AddCommand(agentPauseCommand(con), agentResumeCommand(con), agentDrainCommand(con))
	return cmd
}

func agentPauseCommand(con *command.Console) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "pause AGENT",
		Short: "Start no run of an agent until it is resumed",
		Long: `Start no run of an agent until it is resumed, on any server or worker, also after a
restart. Messages are accepted and wait. Runs that are running go on; drain waits for
them.`,
		Example: `  mailroom agent pause codex --reason "the provider has an outage"`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "shown to everyone who lists the agents")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		if _, err := c.PauseAgent(cmd.Context(), args[0], reason); err != nil {
			return err
		}
		con.Infof("paused %s; resume it with: %s", args[0], con.CommandLine("agent", "resume", args[0]))
		return nil
	})
}

func agentResumeCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume AGENT",
		Short:   "Start the waiting runs of a paused agent",
		Example: `  mailroom agent resume codex`,
		Args:    cobra.ExactArgs(1),
	}
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		if err := c.ResumeAgent(cmd.Context(), args[0]); err != nil {
			return err
		}
		con.Infof("resumed %s", args[0])
		return nil
	})
}

func agentDrainCommand(con *command.Console) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "drain AGENT",
		Short: "Pause an agent and wait until none of its runs is running",
		Long: `Pause an agent and wait until none of its runs is running, for example before its
program is replaced. Ctrl-C ends the wait; the agent stays paused.`,
		Example: `  mailroom agent drain codex --reason "update of its program" && mailroom agent resume codex`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "shown to everyone who lists the agents")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		if _, err := c.PauseAgent(cmd.Context(), args[0], reason); err != nil {
			return err
		}
		return waitDrained(cmd.Context(), con, c, args[0])
	})
}

// drainPoll is how often drain asks for the number of running runs.
const drainPoll = time.Second

func waitDrained(ctx context.Context, con *command.Console, c *client.Client, name string) error {
	for said := -1; ; {
		agents, err := c.Agents(ctx)
		if err != nil {
			return err
		}
		running := runningOf(agents, name)
		if running == 0 {
			con.Infof("%s is paused, and none of its runs is running", name)
			return nil
		}
		if running != said {
			con.Infof("%s is paused; %d running", name, running)
			said = running
		}
		select {
		case <-time.After(drainPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func runningOf(agents []api.Agent, name string) int {
	for _, a := range agents {
		if a.Name == name {
			return a.Running
		}
	}
	return 0
}
