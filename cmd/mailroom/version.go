package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"mailroom/internal/console"
)

// versionInfo is the JSON output of mailroom version. Version is "devel" for a build from
// a working tree; Revision is the source commit, if known.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

func version() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}

func versionCommand(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
	}
	output := console.FormatFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error { return printVersion(con, version(), *output) }
	return cmd
}
