package cli

import (
	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/internal/version"
)

func printVersion(con *command.Console, v version.Info, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(v)
	}
	return con.Printf("mailroom %s\n", v)
}

func versionCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error { return printVersion(con, version.Read(), *output) }
	return cmd
}
