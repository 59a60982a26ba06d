package command

import (
	"runtime"
	"runtime/debug"
)

// Version is the version of this program and the JSON output of mailroom version. The field Version is "devel" for a
// build from a working tree; Revision is the source commit, if known.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// String formats the version as one line.
func (v Version) String() string {
	line := "mailroom " + v.Version
	if v.Revision != "" {
		line += " (" + v.Revision + ")"
	}
	return line + " " + v.Go
}

// ReadVersion returns the version of this program.
func ReadVersion() Version {
	v := Version{Version: "devel", Go: runtime.Version()}
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
