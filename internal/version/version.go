// Package version says which version of Mailroom this program is.
package version

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Number is the version of this tree, as Semantic Versioning writes it: what the next release will be, or what it is at
// the commit of the release. Only make release builds programs that call themselves so; any other build adds
// "-dev", which is older than the release. It is raised by the first commit after a release.
const Number = "0.1.0"

// built is set by the linker in a release: the version, which is Number or a pre-release of it, the commit, and its
// time in RFC 3339, between spaces. It is empty in other builds.
//
// archtest: the linker writes it, no code does.
var built string

// Info describes a program, and is the JSON output of mailroom version.
type Info struct {
	Version  string `json:"version"`          // such as "0.1.0", or "0.1.0-dev" if it is not a release
	Commit   string `json:"commit,omitempty"` // of the source, in full; "" if the build did not know it
	Date     string `json:"date,omitempty"`   // when the commit was made, RFC 3339, or ""
	Modified bool   `json:"modified"`         // the source had changes that are in no commit
	Go       string `json:"go"`               // version of Go that compiled the program
	Platform string `json:"platform"`         // system and processor, such as "linux/amd64"
}

// Read returns what is known about this program.
func Read() Info {
	info, _ := debug.ReadBuildInfo()
	return read(built, info)
}

// read returns the Info of a program with this mark of the linker and this build information, which may be nil. A
// program that go install built of a released version of the module has no mark, but the module's version.
func read(mark string, build *debug.BuildInfo) Info {
	i := Info{Version: Number + "-dev", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build != nil {
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				i.Commit = s.Value
			case "vcs.time":
				i.Date = s.Value
			case "vcs.modified":
				i.Modified = s.Value == "true"
			}
		}
		if build.Main.Version == "v"+Number {
			i.Version = Number
		}
	}
	if words := strings.Fields(mark); len(words) == 3 {
		i.Version, i.Commit, i.Date, i.Modified = words[0], words[1], words[2], false
	}
	return i
}

// String formats i as one line without a name, such as "0.1.0 (96266cb2f1d4, 2026-11-29) go1.26.8 linux/amd64".
func (i Info) String() string {
	const short = 12 // digits of a commit, and 10 of a date: its day
	source := i.Commit[:min(short, len(i.Commit))]
	if i.Date != "" {
		source += ", " + i.Date[:min(10, len(i.Date))]
	}
	if i.Modified {
		source += ", modified"
	}
	return i.Version + " (" + cmp.Or(source, "unknown commit") + ") " + i.Go + " " + i.Platform
}
