// Command bd is the tracker: issues that agents share, in a file that git
// carries. It is the same as mailroom issue.
package main

import (
	"context"
	"os"

	"mailroom/internal/version"
	"mailroom/issues/bd"
	"mailroom/issues/board/github"
	"mailroom/issues/board/linear"
)

func main() {
	os.Exit(bd.RunProcess(context.Background(), "bd", version.Read().Version,
		map[string]bd.Source{github.Kind: github.Export, linear.Kind: linear.Export}))
}
