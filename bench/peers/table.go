package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// printTable prints the medians of all rounds and the ratio of Mailroom to each peer.
func printTable(w io.Writer, chosen []contender, results map[string][]figures) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	best := 0.0
	own := median(results[mailroom], func(f figures) float64 { return f.RunsPerSecond })
	lines := []string{"\tRUNS/S\tLEAST TO MOST\tMAILROOM IS\tSUBMIT P50/P99 ms\tSTART P50/P99 ms\tCPU ms A RUN + DATABASE"}
	for _, c := range chosen {
		r := results[c.name]
		of := func(f func(figures) float64) float64 { return median(r, f) }
		speed := func(f figures) float64 { return f.RunsPerSecond }
		times := "-"
		if c.name != mailroom {
			if !slices.ContainsFunc(variants(), func(v variant) bool { return v.name == c.name }) {
				best = max(best, of(speed))
			}
			times = fmt.Sprintf("%.2f times", own/of(speed))
		}
		bySpeed := func(a, b figures) int { return cmp.Compare(speed(a), speed(b)) }
		lines = append(lines, fmt.Sprintf("%s\t%.0f\t%.0f to %.0f\t%s\t%.2f / %.2f\t%.2f / %.2f\t%.3f + %.3f",
			c.name, of(speed),
			speed(slices.MinFunc(r, bySpeed)), speed(slices.MaxFunc(r, bySpeed)), times,
			of(func(f figures) float64 { return f.SubmitP50 }), of(func(f figures) float64 { return f.SubmitP99 }),
			of(func(f figures) float64 { return f.StartP50 }), of(func(f figures) float64 { return f.StartP99 }),
			of(func(f figures) float64 { return f.CPU }), of(func(f figures) float64 { return f.DatabaseCPU })))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(t, line); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if best > 0 {
		if _, err := fmt.Fprintf(w, "\nmailroom / best peer: %.2f\n", own/best); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w, "\nHow each is set:"); err != nil {
		return err
	}
	for _, c := range chosen {
		if _, err := fmt.Fprintf(w, "  %s: %s\n", c.name, c.settings); err != nil {
			return err
		}
	}
	return nil
}

// median returns the median of a figure over all rounds.
func median(r []figures, of func(figures) float64) float64 {
	if len(r) == 0 {
		return 0
	}
	values := make([]float64, len(r))
	for i, f := range r {
		values[i] = of(f)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
