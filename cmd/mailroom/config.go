package main

import (
	"github.com/spf13/cobra"

	"mailroom/internal/config"
	"mailroom/internal/datadir"
)

func (m *Main) configCommand() *cobra.Command {
	var file string
	var reveal bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration with comments",
		Args:  cobra.NoArgs,
	}
	output := formatFlag(cmd)
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default mailroom.toml in the data folder)")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show the values of env instead of hiding them")
	cmd.RunE = func(*cobra.Command, []string) error {
		dir, err := datadir.Find(m.data, m.Env)
		if err != nil {
			return exitErrorf(exitUsage, "", "%w", err)
		}
		c, err := loadConfig(dir, file)
		if err != nil {
			return err
		}
		return m.printConfig(c, reveal, *output)
	}
	return cmd
}

// loadConfig reads file, which must exist, or else the optional configuration file in
// the data folder.
func loadConfig(dir datadir.Dir, file string) (*config.Config, error) {
	if file != "" {
		c, err := config.Load(file, true)
		if err != nil {
			return nil, &exitError{code: exitUsage, err: err}
		}
		return c, nil
	}
	return config.Load(dir.Config(), false)
}
