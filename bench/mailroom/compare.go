package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Comparison has the figures of this program and of another build, measured in rounds in which both programs take
// turns.
type Comparison struct {
	Other   string             `json:"other"` // path of the other program
	Rounds  int                `json:"rounds"`
	Figures []ComparedFigure   `json:"figures"`
	Results []ComparisonRounds `json:"results"`
}

// ComparisonRounds are the results of one round.
type ComparisonRounds struct {
	This  *Result `json:"this"`
	Other *Result `json:"other"`
}

// ComparedFigure is a figure that both programs have. Ratio is this program's figure divided by the
// other's in the same round.
type ComparedFigure struct {
	Name  string `json:"name"` // name of the figure with its unit
	This  Spread `json:"this"`
	Other Spread `json:"other"`
	Ratio Spread `json:"ratio"`
}

// Spread is the median of values with their minimum and maximum.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// MaxRounds limits the rounds of a comparison.
const MaxRounds = 100

// Compare measures parts with this program and with the one at the path other, each in a process of its own. Every
// round measures both, in the opposite order of the round before, so that load from other programs on the machine
// affects both alike.
func Compare(ctx context.Context, o Options, parts []string, other string, rounds int) (*Comparison, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if rounds < 1 || rounds > MaxRounds {
		return nil, fmt.Errorf("invalid --rounds %d: use 1 to %d", rounds, MaxRounds)
	}
	path, err := exec.LookPath(other)
	if err != nil {
		return nil, fmt.Errorf("--against %s: %w; use the path of another mailroom program", other, err)
	}
	words, err := benchWords(ctx, path)
	if err != nil {
		return nil, err
	}
	theirs, err := partsOf(ctx, path, words, parts)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Other: other, Rounds: rounds}
	for i := range rounds {
		var round ComparisonRounds
		programs := []contender{{"this program", o.Executable, nil, parts, &round.This},
			{other, path, words, theirs, &round.Other}}
		if i%2 == 1 {
			slices.Reverse(programs)
		}
		for _, p := range programs {
			o.Progress("round %d of %d: %s", i+1, rounds, p.name)
			if *p.result, err = measureProgram(ctx, p, o); err != nil {
				return nil, fmt.Errorf("measure %s: %w", p.name, err)
			}
		}
		c.Results = append(c.Results, round)
	}
	c.Figures = compareFigures(c.Results)
	return c, nil
}

// contender is one of the two programs in a round.
type contender struct {
	name, path string
	words      []string // words of the command that measures
	parts      []string
	result     **Result
}

// benchWords returns the words before the flags of a measurement by another program: none for mailroom-bench, or
// "bench" for a mailroom that still has that command.
func benchWords(ctx context.Context, program string) ([]string, error) {
	help, err := exec.CommandContext(ctx, program, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("--against %s: --help: %w", program, err)
	}
	if bytes.Contains(help, []byte("\n  bench ")) {
		return []string{"bench"}, nil
	}
	return nil, nil
}

// partsOf replaces the parts that an older program does not have: latency replaces lone, because its loads include
// those of lone.
func partsOf(ctx context.Context, program string, words, parts []string) ([]string, error) {
	help, err := exec.CommandContext(ctx, program, append(words, "--help")...).Output()
	if err != nil {
		return nil, fmt.Errorf("--against %s: %s--help: %w", program, strings.Join(append(words, ""), " "), err)
	}
	parts = slices.Clone(parts)
	for i, part := range parts {
		if part == PartLone && !bytes.Contains(help, []byte("\n  "+PartLone+" ")) {
			parts[i] = PartLatency
		}
	}
	slices.Sort(parts)
	return slices.Compact(parts), nil
}

// measureProgram runs a program with the options that differ from its defaults.
func measureProgram(ctx context.Context, p contender, o Options) (*Result, error) {
	args := slices.Concat(p.words, p.parts)
	args = append(args, "-o", "json", "--for", o.For.String(), "--scale", fmt.Sprint(o.Scale),
		"--producers", fmt.Sprint(o.Producers), "--slots", fmt.Sprint(o.Slots))
	if o.Dir != "" {
		args = append(args, "--data", o.Dir)
	}
	if o.Rate != 0 {
		args = append(args, "--rate", fmt.Sprint(o.Rate))
	}
	if o.Keys {
		args = append(args, "--keys")
	}
	if o.Store != "" {
		args = append(args, "--store", o.Store, "--nodes", fmt.Sprint(o.Nodes), "--writers", fmt.Sprint(o.Writers))
	}
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the program then removes its files
	cmd.WaitDelay = 10 * time.Second
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(problem.String()), "\n")
		return nil, errors.Join(context.Cause(ctx), fmt.Errorf("%w: %s", err, lines[len(lines)-1]))
	}
	r := &Result{}
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("decode its figures: %w", err)
	}
	return r, nil
}

// figure is a number of a result, with the unit in its name.
type figure struct {
	name  string
	value float64 // 0: the program did not measure it
}

// figures returns the numbers of a result that a comparison shows.
func (r *Result) figures() []figure {
	var all []figure
	if r.Runs != nil {
		all = append(all, r.Runs.figures("full load")...)
	}
	lone := r.Lone
	if lone == nil {
		lone = r.Latency
	}
	for i := range lone {
		if lone[i].Rate > 0 {
			all = append(all, lone[i].figures(Rate(lone[i].Rate))...)
		}
	}
	if h := r.HTTP; h != nil {
		all = append(all, figure{"http: runs/s", h.RunsPerSecond}, figure{"http: CPU per run, ms", h.CPUPerRun},
			figure{"http: end p50, ms", h.Done.P50})
	}
	if w := r.Workers; w != nil {
		for _, l := range w.Languages {
			all = append(all, figure{l.Name + ": runs/s", l.Full.RunsPerSecond},
				figure{l.Name + ": CPU per run of the worker, ms", l.Full.WorkerCPUPerRun},
				figure{l.Name + ": CPU per run of the server, ms", l.Full.CPUPerRun},
				figure{l.Name + " at 100 submits/s: start p50, ms", l.Steady.Start.P50})
		}
	}
	if g := r.Growth; g != nil {
		all = append(all, g.Few.figures(count(int64(g.Few.Queued))+" queued")...)
		all = append(all, g.Many.figures(count(int64(g.Many.Queued))+" queued")...)
		all = append(all, figure{"rate with few queued runs / with many", g.QueueRatio},
			figure{"run on a long log / on a short one", g.LogRatio},
			figure{"CPU on a long log / on a short one", g.LogCPURatio})
	}
	return all
}

func (l *Load) figures(name string) []figure {
	all := []figure{
		{"CPU per run, ms", l.CPUPerRun}, {"start p50, ms", l.Start.P50}, {"start p99, ms", l.Start.P99},
		{"submit p50, ms", l.Submit.P50}, {"submit p99, ms", l.Submit.P99}, {"end p50, ms", l.Done.P50},
		{"disk per run, bytes", l.BytesPerRun},
		{"commits per run", l.CommitsPerRun}, {"statements per run", l.StatementsPerRun}, {"pages per run", l.PagesPerRun},
	}
	if l.Rate == 0 {
		all = append([]figure{{"runs/s", l.RunsPerSecond}}, all...)
	}
	for i := range all {
		all[i].name = name + ": " + all[i].name
	}
	return all
}

// compareFigures returns the figures that both programs measured in every round.
func compareFigures(rounds []ComparisonRounds) []ComparedFigure {
	this, other := map[string][]float64{}, map[string][]float64{}
	collect := func(into map[string][]float64, r *Result) (names []string) {
		for _, f := range r.figures() {
			if f.value > 0 {
				into[f.name] = append(into[f.name], f.value)
				names = append(names, f.name)
			}
		}
		return names
	}
	var names []string
	for _, r := range rounds {
		names = collect(this, r.This)
		collect(other, r.Other)
	}
	var all []ComparedFigure
	for _, name := range names {
		a, b := this[name], other[name]
		if len(a) != len(rounds) || len(b) != len(rounds) {
			continue
		}
		ratios := make([]float64, len(a))
		for i := range a {
			ratios[i] = a[i] / b[i]
		}
		all = append(all, ComparedFigure{name, spreadOf(a), spreadOf(b), spreadOf(ratios)})
	}
	return all
}

// spreadOf returns the spread of at least one value.
func spreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}
