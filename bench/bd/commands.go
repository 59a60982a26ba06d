package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Row has the times of one command on one tracker.
type Row struct {
	Command string  `json:"command"`
	Issues  int     `json:"issues"`
	Size    int64   `json:"size"`     // size of the tracker's file in bytes
	Least   float64 `json:"least_ms"` // times of whole processes
	Median  float64 `json:"median_ms"`
	P95     float64 `json:"p95_ms"`
	Disk    float64 `json:"disk_ms"` // median of a bare write of that size; 0: the command does not write
}

// round has the arguments that the commands of one round get.
type round struct {
	n       int    // number of the round, from 0
	issue   string // an existing issue, a different one each round
	on      string // another issue; neither depends on the other
	created string // the issue that create made in this round
	file    string // file to import, one line
}

// command is a command of bd to measure.
type command struct {
	name   string
	writes bool
	args   func(r *round) []string
}

// commands returns all commands of bd with typical arguments. A round leaves the
// tracker nearly unchanged.
func commands() []command {
	fixed := func(line string) command {
		return command{line, false, func(*round) []string { return strings.Fields(line) }}
	}
	of := func(name string, writes bool, args func(r *round) []string) command {
		return command{name, writes, args}
	}
	return []command{
		fixed("version"),
		of("create", true, func(*round) []string { return []string{"create", "One more issue", "-p", "1", "--json"} }),
		of("show", false, func(r *round) []string { return []string{"show", r.created} }),
		of("show --json", false, func(r *round) []string { return []string{"show", r.issue, "--json"} }),
		of("update --claim", true, func(r *round) []string { return []string{"update", r.created, "--claim", "--json"} }),
		of("update --status", true, func(r *round) []string { return []string{"update", r.created, "--status", "open"} }),
		of("comments add", true, func(r *round) []string { return []string{"comments", "add", r.issue, "a remark"} }),
		of("comments", false, func(r *round) []string { return []string{"comments", r.issue, "--json"} }),
		of("label add", true, func(r *round) []string { return []string{"label", "add", r.created, "marked"} }),
		of("label remove", true, func(r *round) []string { return []string{"label", "remove", r.created, "marked"} }),
		fixed("label list-all"),
		of("dep add", true, func(r *round) []string { return []string{"dep", "add", r.created, r.on} }),
		of("dep tree", false, func(r *round) []string { return []string{"dep", "tree", r.issue} }),
		fixed("dep cycles"),
		of("dep remove", true, func(r *round) []string { return []string{"dep", "remove", r.created, r.on} }),
		fixed("list"), fixed("list --json"), fixed("list --all --json"), fixed("list --status in_progress --json"),
		fixed("ready"), fixed("ready --json"), fixed("ready -n 5 --json"),
		of("ready --claim", true, func(*round) []string { return []string{"ready", "--claim", "--json"} }),
		fixed("blocked"), fixed("blocked --json"), fixed("stale"), fixed("search number 7 --json"),
		fixed("count --by-status"), fixed("stats"), fixed("epic status"), fixed("doctor"), fixed("info"),
		fixed("export"),
		of("import of one", true, func(r *round) []string { return []string{"import", "-i", r.file} }),
		of("close", true, func(r *round) []string { return []string{"close", r.created, "--reason", "done", "--json"} }),
		of("reopen", true, func(r *round) []string { return []string{"reopen", r.created} }),
		of("delete", true, func(r *round) []string { return []string{"delete", r.created, "--force"} }),
		fixed("sync"), fixed("compact"),
		of("rename-prefix", true, func(r *round) []string { return []string{"rename-prefix", prefix(r.n + 1)} }),
	}
}

// prefix returns the prefix of issue ids that the rename of round n sets.
func prefix(n int) string {
	if n%2 == 1 {
		return "other"
	}
	return "bench"
}

// commands runs each command on all trackers in turn, so that other load on the machine affects all trackers alike.
func (b Bench) commands(ctx context.Context, fixtures []*fixture) ([]Row, error) {
	all := commands()
	took := map[*fixture][][]time.Duration{}
	disk, bare := map[*fixture][]time.Duration{}, []time.Duration{}
	for _, p := range fixtures {
		took[p] = make([][]time.Duration, len(all))
	}
	for n := range b.Rounds {
		for _, p := range fixtures {
			times, err := p.round(ctx, n, all)
			if err != nil {
				return nil, err
			}
			for i, d := range times {
				took[p][i] = append(took[p][i], d)
			}
			d, err := p.write()
			if err != nil {
				return nil, err
			}
			disk[p] = append(disk[p], d)
			if d, err = p.start(ctx); err != nil {
				return nil, err
			}
			bare = append(bare, d)
		}
		b.Logf("round %d of %d", n+1, b.Rounds)
	}
	rows := []Row{row("(a process that does nothing)", &fixture{}, bare)}
	for _, p := range fixtures {
		rows = append(rows, row("(a bare write of the file, synced)", p, disk[p]))
		for i, c := range all {
			r := row(c.name, p, took[p][i])
			if c.writes {
				r.Disk = median(disk[p])
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// round runs each command once.
func (p *fixture) round(ctx context.Context, n int, all []command) (took []time.Duration, err error) {
	id := func(i int) string { return strings.Replace(ID(i%p.issues), prefix(0), prefix(n), 1) }
	r := &round{n: n, issue: id(11 + 13*n), on: id(12 + 17*n), file: filepath.Join(p.dir, "one.jsonl")}
	line := strings.Replace(strings.SplitAfterN(Text(1), "\n", 2)[0], ID(0), fmt.Sprintf("extra-%d", n), 1)
	if err := os.WriteFile(r.file, []byte(line), 0o644); err != nil {
		return nil, fmt.Errorf("write a file to import: %w", err)
	}
	for _, c := range all {
		d, out, err := p.run(ctx, c.args(r)...)
		if err != nil {
			return nil, err
		}
		if c.name == "create" {
			var made struct{ ID string }
			if err := json.Unmarshal([]byte(out), &made); err != nil {
				return nil, fmt.Errorf("parse the output of create: %w", err)
			}
			r.created = made.ID
		}
		took = append(took, d)
	}
	return took, nil
}

func row(name string, p *fixture, took []time.Duration) Row {
	slices.Sort(took)
	return Row{Command: name, Issues: p.issues, Size: p.size, Least: percentile(took, 0), Median: median(took),
		P95: percentile(took, 95)}
}

// median returns the median in milliseconds.
func median(took []time.Duration) float64 { return percentile(slices.Sorted(slices.Values(took)), 50) }

// percentile returns a percentile of sorted times in milliseconds.
func percentile(took []time.Duration, percent int) float64 {
	if len(took) == 0 {
		return 0
	}
	at := (len(took)*percent + 99) / 100
	return float64(took[max(at, 1)-1].Microseconds()) / 1000
}
