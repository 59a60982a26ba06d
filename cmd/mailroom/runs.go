package main

import (
	"errors"

	"github.com/spf13/cobra"

	"mailroom/client"
)

func (m *Main) runsCommand() *cobra.Command {
	var q client.ListQuery
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List runs, newest first",
		Args:  cobra.NoArgs,
	}
	output := formatFlag(cmd)
	listFlags(cmd, &q)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := m.connect()
		if err != nil {
			return err
		}
		page, err := c.Runs(cmd.Context(), q)
		if err != nil {
			return err
		}
		return m.printRuns(page, *output)
	}
	return cmd
}

func (m *Main) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Show, cancel or retry a run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &usageError{command: cmd.CommandPath(), err: errors.New("what to do with a run? show, cancel or retry")}
		},
	}
	cmd.AddCommand(m.runShowCommand(), m.runCancelCommand(), m.runRetryCommand())
	return cmd
}

func (m *Main) runShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run",
		Args:  cobra.ExactArgs(1),
	}
	output := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := m.connect()
		if err != nil {
			return err
		}
		r, err := c.Run(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return m.printRun(r, *output)
	}
	return cmd
}

func (m *Main) runCancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run, or ask it to stop if it is running",
		Args:  cobra.ExactArgs(1),
	}
	output := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := m.connect()
		if err != nil {
			return err
		}
		r, err := c.CancelRun(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return m.printChanged(r, *output)
	}
	return cmd
}

func (m *Main) runRetryCommand() *cobra.Command {
	var fresh, same bool
	cmd := &cobra.Command{
		Use:   "retry RUN",
		Short: "Queue a failed or cancelled run again",
		Args:  cobra.ExactArgs(1),
	}
	output := formatFlag(cmd)
	cmd.Flags().BoolVar(&fresh, "fresh", false, "start from nothing: drop what it had done")
	cmd.Flags().BoolVar(&same, "same-version", false, "keep the agent version it had (default: the current one)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := client.Retry{Fresh: fresh}
		if same {
			in.AgentVersion = "same"
		}
		c, err := m.connect()
		if err != nil {
			return err
		}
		r, err := c.RetryRun(cmd.Context(), args[0], in)
		if err != nil {
			return err
		}
		return m.printChanged(r, *output)
	}
	return cmd
}
