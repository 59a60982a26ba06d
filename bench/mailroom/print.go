package main

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"

	"mailroom/app/command"
)

// printResult prints the result, one table for each part.
func printResult(con *command.Console, r *Result, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(r)
	}
	tables := [][][]string{machineRows(r)}
	if r.Runs != nil {
		tables = append(tables, runsRows(r.Runs))
	}
	if r.Latency != nil {
		tables = append(tables, latencyRows("LATENCY", r.Latency))
	}
	if r.Lone != nil {
		tables = append(tables, latencyRows("LONE", r.Lone))
	}
	if r.Steady != nil {
		tables = append(tables, steadyRows(r.Steady))
	}
	if r.Growth != nil {
		tables = append(tables, logRows(r.Growth), queueRows(r.Growth))
	}
	if r.HTTP != nil {
		tables = append(tables, httpRows(r))
	}
	if r.Workers != nil {
		tables = append(tables, workersRows(r.Workers))
	}
	if r.Restart != nil {
		tables = append(tables, restartRows(r.Restart))
	}
	if r.Queries != nil {
		tables = append(tables, queriesRows(r.Queries))
	}
	for i := range r.Fanout {
		tables = append(tables, fanoutRows(&r.Fanout[i]))
	}
	if r.Stalled != nil {
		tables = append(tables, stalledRows(r.Stalled))
	}
	if r.Memory != nil {
		tables = append(tables, memoryRows(r.Memory))
	}
	if r.Schedules != nil {
		tables = append(tables, schedulesRows(r.Schedules))
	}
	for i, rows := range tables {
		if i > 0 {
			if err := con.Printf("\n"); err != nil {
				return err
			}
		}
		if err := con.PrintTable(rows); err != nil {
			return err
		}
	}
	return nil
}

func machineRows(r *Result) [][]string {
	return [][]string{
		{"machine", fmt.Sprintf("%s/%s, %d cores %s", r.Machine.OS, r.Machine.Arch, r.Machine.Cores, r.Machine.CPU)},
		{"versions", fmt.Sprintf("mailroom %s, %s, SQLite %s", r.Machine.Version, r.Machine.Go, r.Machine.SQLite)},
		{"fsync of 1 KiB", spread(r.Machine.Fsync)},
		{"load", fmt.Sprintf("%s, %s, %d producers, %d slots, %s threads", r.Settings.Store, nodesOf(r.Settings),
			r.Settings.Producers, r.Settings.Slots, count(int64(r.Settings.Threads)))},
		{"measured", fmt.Sprintf("%gs each, after a warm-up of %gs, at scale %g", r.Settings.Seconds,
			r.Settings.WarmupSeconds, r.Settings.Scale)},
	}
}

func nodesOf(s Settings) string {
	if s.Nodes == 1 {
		return "one server"
	}
	return fmt.Sprintf("%d servers, each with", s.Nodes)
}

func runsRows(l *Load) [][]string {
	return [][]string{
		{"RUNS", "full load"},
		{"complete runs", fmt.Sprintf("%s/s (%s in %.1fs)", round(l.RunsPerSecond), count(l.Runs), l.Seconds)},
		{"halves, slowest second", fmt.Sprintf("%s/s, %s/s, %s/s", round(l.FirstHalf), round(l.SecondHalf),
			round(l.SlowestSecond))},
		{"submit", spread(l.Submit)},
		{"submit to start", spread(l.Start)},
		{"submit to end", spread(l.Done)},
		{"CPU", fmt.Sprintf("%.3f ms per run, %.2f cores (producers included)", l.CPUPerRun, l.Cores)},
		{"commits", fmt.Sprintf("%s/s, %.1f operations and %.2f ms each%s", round(l.CommitsPerSecond), l.OperationsPerCommit,
			l.CommitMean, trips(l))},
		{"commits, statements, pages", perRun(l) + " per run"},
		{"on disk", bytesPerRun(l)},
		{"queued at the end", count(l.Queued)},
	}
}

func httpRows(r *Result) [][]string {
	l := r.HTTP
	rows := [][]string{
		{"HTTP", fmt.Sprintf("%d connections that submit a run and wait for its end", r.Settings.Producers)},
		{"complete runs", fmt.Sprintf("%s/s (%s in %.1fs)", round(l.RunsPerSecond), count(l.Runs), l.Seconds)},
		{"submit", spread(l.Submit)},
		{"submit to end", spread(l.Done)},
		{"CPU of the server", fmt.Sprintf("%.3f ms per run, %.2f cores", l.CPUPerRun, l.Cores)},
	}
	if r.Runs != nil {
		rows = append(rows, []string{"divided by the rate of runs",
			fmt.Sprintf("%.2f", l.RunsPerSecond/r.Runs.RunsPerSecond)})
	}
	return rows
}

func workersRows(w *Workers) [][]string {
	rows := [][]string{{"WORKERS", "RUNS/S", "OF GO", "CPU MS/RUN: WORKER", "SERVER", "TO START AT 100/S (ms, p50/p99)",
		"IDLE REQUESTS/MINUTE"}}
	for _, l := range w.Languages {
		rows = append(rows, []string{l.Name, round(l.Full.RunsPerSecond),
			fmt.Sprintf("%.2f", ratio(l.Full.RunsPerSecond, w.Languages[0].Full.RunsPerSecond)),
			fmt.Sprintf("%.3f", l.Full.WorkerCPUPerRun), fmt.Sprintf("%.3f", l.Full.CPUPerRun), pair(l.Steady.Start),
			fmt.Sprintf("%.1f", l.RequestsPerMinute)})
	}
	for _, reason := range w.Missing {
		rows = append(rows, []string{"not measured", reason})
	}
	return rows
}

func trips(l *Load) string {
	if l.TripsPerCommit == 0 {
		return ""
	}
	return fmt.Sprintf("; %.2f round trips, %.2f %% ran again", l.TripsPerCommit, 100*l.RanAgain)
}

func bytesPerRun(l *Load) string {
	if l.FileBytes == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.0f bytes a run", l.BytesPerRun)
}

func latencyRows(part string, loads []Load) [][]string {
	rows := [][]string{{part + " (ms, p50/p99)", "SUBMIT", "TO START", "TO END", "RUNS/S", "CPU MS/RUN",
		"COMMITS, STATEMENTS, PAGES/RUN"}}
	for _, l := range loads {
		rows = append(rows, []string{Rate(l.Rate), pair(l.Submit), pair(l.Start), pair(l.Done), round(l.RunsPerSecond),
			fmt.Sprintf("%.3f", l.CPUPerRun), perRun(&l)})
	}
	return rows
}

// perRun formats how many commits, and if known how many statements and pages, a run needs of the store.
func perRun(l *Load) string {
	if l.StatementsPerRun == 0 {
		return fmt.Sprintf("%.2f", l.CommitsPerRun)
	}
	return fmt.Sprintf("%.2f, %.1f, %.1f", l.CommitsPerRun, l.StatementsPerRun, l.PagesPerRun)
}

// printComparison prints the figures of both programs and their ratios.
func printComparison(con *command.Console, c *Comparison, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(c)
	}
	rows := [][]string{{fmt.Sprintf("MEDIAN OF %d (min to max)", c.Rounds), "THIS", "OTHER", "RATIO"}}
	for _, f := range c.Figures {
		rows = append(rows, []string{f.Name, f.This.String(), f.Other.String(), f.Ratio.String()})
	}
	return con.PrintTable(rows)
}

// String formats a spread with three significant digits.
func (s Spread) String() string {
	one := func(v float64) string {
		if v >= 1000 {
			return round(v)
		}
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%s (%s to %s)", one(s.Median), one(s.Min), one(s.Max))
}

func steadyRows(s *Steady) [][]string {
	rows := [][]string{{fmt.Sprintf("STEADY, %d submits/s", s.Rate), "RUNS/S", "CPU MS/RUN", "SIZE", "DEAD ROWS"}}
	for _, one := range s.Samples {
		rows = append(rows, []string{
			fmt.Sprintf("%.0f s", one.Seconds), round(one.RunsPerSecond), fmt.Sprintf("%.3f", one.CPUPerRun),
			humanize.Bytes(uint64(one.Bytes)), count(one.Dead),
		})
	}
	return append(rows, []string{"last / middle", "", fmt.Sprintf("%.2f", s.CPURatio), fmt.Sprintf("%.2f", s.SizeRatio),
		fmt.Sprintf("%.2f", s.DeadRatio)})
}

func logRows(g *Growth) [][]string {
	rows := [][]string{{"LONG LOG (ms, p50/p99)", "ONE RUN", "READ 20 MESSAGES", "CPU MS/RUN"}}
	for _, t := range []ThreadLoad{g.Short, g.Long} {
		rows = append(rows, []string{count(t.Entries) + " entries", pair(t.Run), pair(t.Page),
			fmt.Sprintf("%.3f", t.CPUPerRun)})
	}
	return append(rows, []string{"ratio", fmt.Sprintf("%.2f", g.LogRatio), "", fmt.Sprintf("%.2f", g.LogCPURatio)})
}

func queueRows(g *Growth) [][]string {
	rows := [][]string{{"LONG QUEUE (ms, p50/p99)", "RUNS/S", "SUBMIT", "URGENT RUN TO START", "CPU MS/RUN"}}
	for _, q := range []QueueLoad{g.Few, g.Many} {
		rows = append(rows, []string{count(int64(q.Queued)) + " queued", round(q.RunsPerSecond), pair(q.Submit),
			pair(q.Urgent), fmt.Sprintf("%.3f", q.CPUPerRun)})
	}
	rows = append(rows, []string{"ratio", fmt.Sprintf("%.2f", g.QueueRatio), "", fmt.Sprintf("%.2f", g.UrgentRatio), ""})
	for i, q := range []QueueLoad{g.OneKey, g.ManyKeys} {
		name := []string{" queued, one key", " queued, many keys"}[i]
		rows = append(rows, []string{count(int64(q.Queued)) + name, round(q.RunsPerSecond), pair(q.Submit), "",
			fmt.Sprintf("%.3f", q.CPUPerRun)})
	}
	return append(rows, []string{"ratio", fmt.Sprintf("%.2f", g.KeyRatio), "", "", ""})
}

func restartRows(r *Restart) [][]string {
	rows := [][]string{{"RESTART", "LISTENING AFTER", "FIRST RUN ENDED AFTER"}}
	row := func(name string, s Restarted) {
		rows = append(rows, []string{name, fmt.Sprintf("%.0f ms", s.Listening), fmt.Sprintf("%.0f ms", s.Served)})
	}
	row(count(int64(r.Queued))+" queued", r.Clean)
	for _, s := range r.Killed {
		row("after a kill", s)
	}
	return rows
}

func queriesRows(q *Queries) [][]string {
	runs := func(t *QueryTimes) string {
		return fmt.Sprintf("%s RUNS, %s THREADS", count(t.Runs), count(int64(t.Threads)))
	}
	rows := [][]string{{"QUERIES (ms, p50/p99)", runs(&q.Small), runs(&q.Large), "RATIO OF P50"}}
	for i, small := range q.Small.Requests {
		large := q.Large.Requests[i]
		rows = append(rows, []string{small.Name, pair(small.Times), pair(large.Times),
			fmt.Sprintf("%.2f", ratio(large.P50, small.P50))})
	}
	return rows
}

func fanoutRows(f *Fanout) [][]string {
	title := "FANOUT"
	if f.Sockets {
		title = "FANOUT, WEBSOCKETS"
	}
	return [][]string{
		{title, fmt.Sprintf("%s readers of one run, %.1f deltas/s, for %.1fs", count(int64(f.Readers)), f.PiecesPerSecond,
			f.Seconds)},
		{"deliveries", round(f.DeliveriesPerSec) + "/s"},
		{"delay", spread(f.Delay)},
		{"server", fmt.Sprintf("%.2f cores", f.ServerCores)},
		{"readers", fmt.Sprintf("%.2f cores", f.ReaderCores)},
		{"lost, disconnected", fmt.Sprintf("%s bytes, %d readers", count(f.LostBytes), f.CutOff)},
	}
}

func stalledRows(s *Stalled) [][]string {
	rows := [][]string{{"STALLED", "DELTAS/S", "A RUN (ms, p50/p99)", "CPU MS/RUN", "HEAP (MB)"}}
	row := func(name string, of StreamLoad) {
		rows = append(rows, []string{name, round(of.PiecesPerSecond), pair(of.Run), fmt.Sprintf("%.1f", of.CPUPerRun),
			fmt.Sprintf("%.2f", of.Heap/1e6)})
	}
	row(count(int64(s.Readers))+" readers", s.Without)
	row(fmt.Sprintf("plus %d stalled readers", s.Stalled), s.With)
	ratio := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	return append(rows, []string{"ratio", ratio(s.SpeedRatio), "", ratio(s.CPURatio), ratio(s.HeapRatio)},
		[]string{"disconnected", fmt.Sprintf("%d active readers", s.CutOff), "", "", ""})
}

func memoryRows(m *Memory) [][]string {
	rows := [][]string{{"MEMORY (bytes each)", "COUNT", "HEAP", "PROCESS", "DISK"}}
	for _, f := range []struct {
		name string
		of   Footprint
	}{{"idle thread, with one run", m.Thread}, {"queued run", m.Run}, {"idle reader", m.Reader},
		{"idle worker", m.Worker}} {
		rows = append(rows, []string{f.name, count(int64(f.of.Count)), round(f.of.Heap), round(f.of.Resident),
			round(f.of.Disk)})
	}
	return rows
}

// pair formats the median and the 99th percentile.
func pair(t Times) string { return fmt.Sprintf("%.2f / %.2f", t.P50, t.P99) }

// spread formats the median, the 99th percentile and the maximum.
func spread(t Times) string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, max %.1f ms", t.P50, t.P99, t.Max)
}

func count(n int64) string { return humanize.Comma(n) }

func round(v float64) string { return humanize.Comma(int64(math.Round(v))) }
