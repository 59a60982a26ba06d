package cli

import (
	"github.com/spf13/cobra"

	"mailroom/app/command"
)

func printVersion(con *command.Console, v command.Version, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(v)
	}
	return con.Printf("%s\n", v)
}

func versionCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error { return printVersion(con, command.ReadVersion(), *output) }
	return cmd
}
