package main

import (
	"strings"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/node"
)

func addChannelCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Add a channel to the configuration and test it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var kinds []string
			for _, c := range cmd.Commands() {
				kinds = append(kinds, c.Name())
			}
			return command.Errorf(command.ExitUsage, con.CommandLine("channels", "add")+" "+strings.Join(kinds, ", or "),
				"missing kind of channel")
		},
	}
	cmd.AddCommand(config.ChannelCommands(config.SetupOptions{Console: con, Kinds: config.Kinds(),
		CheckAgent: node.CheckAgent})...)
	return cmd
}

func addTargetCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Add a target of alerts to the configuration and test it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var kinds []string
			for _, c := range cmd.Commands() {
				kinds = append(kinds, c.Name())
			}
			return command.Errorf(command.ExitUsage, con.CommandLine("notify", "add")+" "+strings.Join(kinds, ", or "),
				"missing kind of target")
		},
	}
	cmd.AddCommand(config.TargetCommands(config.SetupOptions{Console: con, Kinds: config.Kinds(),
		CheckAgent: node.CheckAgent})...)
	return cmd
}
