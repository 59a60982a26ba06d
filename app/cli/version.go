package cli

import (
	"github.com/spf13/cobra"

	"mailroom/internal/console"
)

func printVersion(con *console.Console, v console.Version, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(v)
	}
	return con.Printf("%s\n", v)
}

func versionCommand(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
	}
	output := console.FormatFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error { return printVersion(con, console.ReadVersion(), *output) }
	return cmd
}
