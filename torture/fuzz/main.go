// Command fuzz runs the fuzz targets of the module of the working directory, each for some seconds, and continues
// after a target that fails. Each package is compiled once for all its targets. At the end it lists the failures,
// with the inputs that were written.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	length := flag.Duration("time", 10*time.Second, "run each target this long")
	only := flag.String("only", "Fuzz*", "run only targets whose name matches this pattern")
	flag.Parse()
	failed, err := run(ctx, *only, *length)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// run runs the targets that match a pattern of package path, and returns how many failed.
func run(ctx context.Context, only string, length time.Duration) (failed int, err error) {
	if _, err := path.Match(only, ""); err != nil {
		return 0, fmt.Errorf("pattern %q: %w; use * and ?, as in FuzzPath*", only, err)
	}
	packages, err := list(ctx)
	if err != nil {
		return 0, err
	}
	s := session{length: length, out: os.Stdout}
	for _, p := range packages {
		p.keep(only)
		s.total += len(p.targets)
	}
	if s.total == 0 {
		return 0, fmt.Errorf("no fuzz target matches %q; go test -list Fuzz PACKAGE lists those of a package", only)
	}
	if s.binaries, err = os.MkdirTemp("", "fuzz-*"); err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(s.binaries) }() // the folder is in the system's folder for temporary files
	if s.cache, err = cacheFolder(ctx); err != nil {
		return 0, err
	}
	for _, p := range packages {
		if err := s.fuzz(ctx, p); err != nil {
			return 0, err
		}
	}
	s.summarize()
	return len(s.failures), nil
}
