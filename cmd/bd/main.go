// Command bd is the tracker: issues that agents share, in a file that git
// carries. It is the same as mailroom issue.
package main

import (
	"context"
	"os"

	"mailroom/internal/version"
	"mailroom/issues/bd"
)

func main() { os.Exit(bd.RunProcess(context.Background(), "bd", version.Read().Version)) }
