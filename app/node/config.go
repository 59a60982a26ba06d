package node

import (
	"errors"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
)

func configCommand(con *command.Console) *cobra.Command {
	var file string
	var reveal bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration with comments",
		Args:  cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default mailroom.toml in the data folder)")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show the values of env instead of hiding them")
	cmd.RunE = func(*cobra.Command, []string) error {
		dir, err := datadir.Find(con.Data, con.Env)
		if err != nil {
			return command.Errorf(command.ExitUsage, "", "%w", err)
		}
		c, err := loadConfig(con, dir, file)
		if err != nil {
			return err
		}
		return printConfig(con, c, reveal, *output)
	}
	return cmd
}

// loadConfig reads file, which must exist, or, if file is "", the optional configuration file in the data folder. It
// warns about environment variables that look like settings and have no effect.
func loadConfig(con *command.Console, dir datadir.Dir, file string) (*config.Config, error) {
	c, err := findConfig(con, dir, file)
	if err == nil && con.Environ != nil {
		for _, warning := range c.UnknownVariables(con.Environ()) {
			con.Infof("warning: %s", warning)
		}
	}
	return c, err
}

func findConfig(con *command.Console, dir datadir.Dir, file string) (*config.Config, error) {
	if file != "" {
		c, err := config.Load(file, true, config.Kinds(), con.Env)
		if err != nil {
			return nil, command.Errorf(command.ExitUsage, "", "%w", err)
		}
		return c, nil
	}
	c, err := config.Load(dir.Config(), false, config.Kinds(), con.Env)
	if _, ok := errors.AsType[*config.Error](err); ok {
		return nil, command.Errorf(command.ExitUsage, "", "%w", err)
	}
	return c, err
}

func printConfig(con *command.Console, c *config.Config, reveal bool, output command.Format) error {
	text := []byte(c.TOML(reveal))
	if output == command.FormatJSON {
		var err error
		if text, err = c.JSON(reveal); err != nil {
			return err
		}
	}
	return con.Printf("%s", text)
}
