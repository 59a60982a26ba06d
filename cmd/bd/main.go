// Command bd is the tracker: issues that agents share, in a file that git
// carries. It is the same as mailroom issue.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"mailroom/issues/bd"
)

func main() { os.Exit(bd.RunProcess(context.Background(), "bd", version())) }

// version is the module's version, devel for a build of a working tree.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
