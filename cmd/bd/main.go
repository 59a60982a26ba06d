// Command bd is the tracker: issues that agents share, in a file that git
// carries. It is the same as mailroom issue.
package main

import (
	"context"
	"os"

	"mailroom/cmd/internal/bd"
)

// version is set by the linker for releases.
const version = "0.60.0"

func main() { os.Exit(bd.Started(context.Background(), "bd", version)) }
