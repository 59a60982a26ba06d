// Command bd measures bd as users run it, as whole processes one after the other. The
// same run measures the cost of a disk write and of a process start for comparison.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case interrupted:
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "bench-bd:", err)
		os.Exit(1)
	}
}

// run measures the program that args name and prints the report to out.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	b := Bench{Logf: func(format string, args ...any) { fmt.Fprintf(progress, format+"\n", args...) }}
	flags := flag.NewFlagSet("bench-bd", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.Usage = func() {
		fmt.Fprintln(progress, "usage: bench-bd [flags] PROGRAM [ARG…], such as bench-bd bin/bd")
		flags.PrintDefaults()
	}
	flags.IntVar(&b.Rounds, "rounds", 15, "runs of each command on each tracker")
	issues := flags.String("issues", "1000,10000", "sizes of the trackers, comma-separated")
	flags.IntVar(&b.Crowd, "crowd", 50, "number of parallel processes")
	flags.IntVar(&b.Import, "import", 5000, "number of issues to import")
	flags.StringVar(&b.Dir, "data", "", "folder on the disk to measure (default: the temporary folder)")
	asJSON := flags.Bool("json", false, "print the report as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if b.Sizes, err = sizes(*issues); err != nil {
		return err
	}
	for name, n := range map[string]int{"rounds": b.Rounds, "crowd": b.Crowd, "import": b.Import,
		"issues": slices.Min(b.Sizes)} {
		if n < 1 {
			return fmt.Errorf("-%s %d measures nothing; use 1 or more", name, n)
		}
	}
	if b.Program, err = program(flags.Args()); err != nil {
		return err
	}
	report, err := b.Run(ctx)
	if err != nil {
		return err
	}
	if *asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	return printReport(out, report)
}

func sizes(list string) (found []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("-issues: %q is not a number; use comma-separated numbers such as 1000,10000", text)
		}
		found = append(found, n)
	}
	return found, nil
}

// program returns the command line with the absolute path of its program, because the
// processes run in other folders.
func program(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, errors.New("name the program to measure, such as bin/bd")
	}
	path, err := exec.LookPath(args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("find the program to measure: %w", err)
	}
	return append([]string{path}, args[1:]...), nil
}

func printReport(out io.Writer, r Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "command\tissues\tfile\tleast ms\tmedian ms\tp95 ms\tof it disk")
	for _, c := range r.Commands {
		disk := ""
		if c.Disk > 0 {
			disk = fmt.Sprintf("%.1f", c.Disk)
		}
		fmt.Fprintf(w, "%s\t%d\t%.1f MB\t%.1f\t%.1f\t%.1f\t%s\n", c.Command, c.Issues, float64(c.Size)/1e6, c.Least, c.Median,
			c.P95, disk)
	}
	fmt.Fprintln(w, "\ntogether\tissues\ttook ms\tkept\tbare writes\tbare starts")
	for _, c := range r.Crowds {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%d\t%.1f\t%.1f\n", c.What, c.Issues, c.Took, c.Kept, c.Disk, c.Starts)
	}
	fmt.Fprintln(w, "\nother files at the end\tissues\tbytes")
	for _, f := range r.Grown {
		fmt.Fprintf(w, "%s\t%d\t%d\n", f.Name, f.Issues, f.Size)
	}
	return w.Flush()
}
