// Command mutants breaks one guarantee after the other in the source and runs the test that proves
// it. A mutant whose test passes has survived: the test does not prove the guarantee. The tree
// itself is not changed: the compiler gets the changed file as an overlay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	only := flag.String("only", "", "run only mutants whose file or description matches this regular expression")
	flag.Parse()
	sum, err := run(ctx, os.Stdout, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if sum[survived] > 0 || sum[notJudged] > 0 {
		os.Exit(1)
	}
}

// run judges the mutants in the module of the working directory, and returns how many had each fate.
func run(ctx context.Context, out io.Writer, only string) (sum map[fate]int, err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	dir, err := os.MkdirTemp("", "mutants-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sum = map[fate]int{}
	rest := []string{}
	for _, m := range mutants() {
		if !wanted.MatchString(m.file) && !wanted.MatchString(m.breaks) {
			continue
		}
		began := time.Now()
		v, err := m.judge(ctx, dir)
		if err != nil {
			return sum, fmt.Errorf("%s: %s: %w", m.file, m.breaks, err)
		}
		sum[v.fate]++
		took := time.Since(began).Round(time.Second)
		fmt.Fprintf(out, "%-40s %-76s %4s %s %s\n", m.file, m.breaks, took, v.fate, m.provenBy(v))
		if v.fate != killed {
			rest = append(rest, fmt.Sprintf("%s: %s: %s: %s\n%s", v.fate, m.file, m.breaks, v.reason, v.output))
		}
	}
	if len(sum) == 0 {
		return sum, fmt.Errorf("no mutant has a file or a description that matches %q", only)
	}
	for _, text := range rest {
		fmt.Fprintln(out, text)
	}
	fmt.Fprintf(out, "%d mutants: %d killed, %d survived, %d not judged\n",
		sum[killed]+sum[survived]+sum[notJudged], sum[killed], sum[survived], sum[notJudged])
	return sum, nil
}
