package cli

import (
	_ "embed" // the table of licences
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/app/command"
)

// licenseTable has a line for each module that programs contain on any platform, for each script in the pages, and for
// the table of prices: its name, its version unless it is a linked module, and the licence as an expression of SPDX,
// between tabs. The texts are in the file NOTICES of a release.
//
//go:embed licenses.tsv
var licenseTable string // archtest: the compiler writes it, no code does.

// component is a module or a script that this program contains.
type component struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	License string `json:"license"` // expression of SPDX
}

// components returns what a program with these modules contains, in the order of the table. It returns an error if the
// table lacks a module.
func components(modules []*debug.Module) ([]component, error) {
	linked := map[string]string{}
	for _, m := range modules {
		linked[m.Path] = m.Version
	}
	var list []component
	for line := range strings.Lines(licenseTable) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(columns) != 3 {
			return nil, fmt.Errorf("table of licences: line %q has no three columns", line)
		}
		c := component{Name: columns[0], Version: columns[1], License: columns[2]}
		if version, ok := linked[c.Name]; ok {
			c.Version = version
			delete(linked, c.Name)
		}
		if c.Version != "" {
			list = append(list, c)
		}
	}
	for name := range linked {
		return nil, fmt.Errorf("table of licences: module %s has no line", name)
	}
	return list, nil
}

func licensesCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "licenses",
		Short: "Print the licences of what this program contains",
		Long: `Print the modules, the scripts of pages and the table of prices that this program contains, with
their licences as expressions of SPDX. Each archive and package of a release has the texts in the file NOTICES.`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		build, ok := debug.ReadBuildInfo()
		if !ok {
			return command.Errorf(command.ExitFailed, "", "this program does not know its modules: it was built without them")
		}
		list, err := components(build.Deps)
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(list)
		}
		rows := [][]string{{"NAME", "VERSION", "LICENSE"}}
		for _, c := range list {
			rows = append(rows, []string{c.Name, c.Version, c.License})
		}
		return con.PrintTable(rows)
	}
	return cmd
}
