package main

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"mailroom/cmd/mailroom/internal/bench"
)

// printBench prints what was measured, each part as a table of its own.
func (m *Main) printBench(r *bench.Result, output format) error {
	if output == asJSON {
		return m.printJSON(r)
	}
	tables := [][][]string{machineRows(r)}
	if r.Runs != nil {
		tables = append(tables, runsRows(r.Runs))
	}
	for i, rows := range tables {
		if i > 0 {
			if _, err := fmt.Fprintln(m.Stdout); err != nil {
				return printed(err)
			}
		}
		if err := m.printTable(rows); err != nil {
			return err
		}
	}
	return nil
}

func machineRows(r *bench.Result) [][]string {
	return [][]string{
		{"machine", fmt.Sprintf("%s/%s, %d cores %s", r.Machine.OS, r.Machine.Arch, r.Machine.Cores, r.Machine.CPU)},
		{"versions", fmt.Sprintf("mailroom %s, %s, SQLite %s", r.Machine.Version, r.Machine.Go, r.Machine.SQLite)},
		{"fsync of 1 KiB", spread(r.Machine.Fsync)},
		{"load", fmt.Sprintf("%d producers, %d slots, %s threads", r.Settings.Producers, r.Settings.Slots, count(int64(r.Settings.Threads)))},
		{"measured", fmt.Sprintf("%gs each, after %gs of warm-up, at scale %g", r.Settings.Seconds, r.Settings.WarmupSeconds, r.Settings.Scale)},
	}
}

func runsRows(l *bench.Load) [][]string {
	return [][]string{
		{"RUNS", "as many as go"},
		{"complete runs", fmt.Sprintf("%s/s (%s in %.1fs)", perSecond(l.RunsPerSecond), count(l.Runs), l.Seconds)},
		{"halves, slowest second", fmt.Sprintf("%s/s, %s/s, %s/s", perSecond(l.FirstHalf), perSecond(l.SecondHalf), perSecond(l.SlowestSecond))},
		{"submit", spread(l.Submit)},
		{"submit to start", spread(l.Start)},
		{"submit to end", spread(l.Done)},
		{"processor", fmt.Sprintf("%.3f ms a run, %.2f cores (producers included)", l.CPUPerRun, l.Cores)},
		{"commits", fmt.Sprintf("%s/s, %.1f operations and %.2f ms each", perSecond(l.CommitsPerSecond), l.OperationsPerCommit, l.CommitMean)},
		{"on disk", fmt.Sprintf("%.0f bytes a run", l.BytesPerRun)},
		{"queued at the end", count(l.Queued)},
	}
}

// spread shows times by their middle and their tail.
func spread(t bench.Times) string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, max %.1f ms", t.P50, t.P99, t.Max)
}

func count(n int64) string { return humanize.Comma(n) }

func perSecond(v float64) string { return humanize.Comma(int64(v + 0.5)) }
