package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Parts that can be measured.
const (
	PartRuns    = "runs"    // complete runs a second, with as many submits as go
	PartLatency = "latency" // at steady rates
	PartGrowth  = "growth"  // what a long log and a long queue cost
	PartRestart = "restart" // until a server with a backlog serves
	PartFanout  = "fanout"  // one run with many readers
	PartStalled = "stalled" // what readers that take nothing cost the others
	PartMemory  = "memory"  // and disk
)

// Parts returns the names of all parts, in the order in which they are measured.
func Parts() []string {
	return []string{PartRuns, PartLatency, PartGrowth, PartRestart, PartFanout, PartStalled, PartMemory}
}

// Options of a measurement.
type Options struct {
	// Dir is where the measured files are made, in a folder of their own
	// that is removed at the end; "" is the system's for temporary files.
	Dir string
	For time.Duration // how long each rate is measured
	// Scale is the fraction of the full sizes (10,000 threads, 100,000
	// entries, 1,000,000 queued runs, 1,000 readers, …): 1 for figures, less
	// for a trial.
	Scale     float64
	Producers int // that submit at the same time
	Slots     int // runs at the same time
	Version   string
	// Executable is the path of this program, which is started as a server and
	// as readers.
	Executable string
	// Config is a configuration in which the agent echo has no pace, and
	// AgentVersion the version it then has.
	Config       string
	AgentVersion string
	Progress     func(format string, args ...any) // progress
}

// Limits of the options: beyond them a measurement would measure the machine's
// swapping.
const (
	MaxFor       = time.Hour
	MaxProducers = 4096
	MaxSlots     = 4096
)

// Check refuses options that make no sense, in plain words.
func (o *Options) Check() error {
	switch {
	case o.For < 100*time.Millisecond || o.For > MaxFor:
		return fmt.Errorf("--for is %s: choose a time from 100ms to %s", o.For, MaxFor)
	case !(o.Scale > 0 && o.Scale <= 1):
		return fmt.Errorf("--scale is %v: choose a fraction above 0, up to 1", o.Scale)
	case o.Producers < 1 || o.Producers > MaxProducers:
		return fmt.Errorf("--producers is %d: choose 1 to %d", o.Producers, MaxProducers)
	case o.Slots < 1 || o.Slots > MaxSlots:
		return fmt.Errorf("--slots is %d: choose 1 to %d", o.Slots, MaxSlots)
	}
	return nil
}

// scaled is a full size at the scale of the measurement, at least least.
func (o *Options) scaled(full, least int) int {
	return max(least, int(float64(full)*o.Scale))
}

// warmup is how long a load runs before it is measured.
func (o *Options) warmup() time.Duration {
	return min(o.For/5, 3*time.Second)
}

// Result is what was measured. Parts that were not asked for are nil.
type Result struct {
	Machine  Machine  `json:"machine"`
	Settings Settings `json:"settings"`
	Runs     *Load    `json:"runs,omitempty"`
	Latency  []Load   `json:"latency,omitempty"`
	Growth   *Growth  `json:"growth,omitempty"`
	Restart  *Restart `json:"restart,omitempty"`
	Fanout   []Fanout `json:"fanout,omitempty"`
	Stalled  *Stalled `json:"stalled,omitempty"`
	Memory   *Memory  `json:"memory,omitempty"`
}

// Settings say under which load.
type Settings struct {
	Seconds       float64 `json:"seconds"`
	WarmupSeconds float64 `json:"warmup_seconds"`
	Scale         float64 `json:"scale"`
	Producers     int     `json:"producers"`
	Slots         int     `json:"slots"`
	Threads       int     `json:"threads"`
}

// threads of a load, which are taken in turn.
const threads = 10_000

// bench is one measurement.
type bench struct {
	Options
	dir    string
	result *Result
}

// Run measures the parts that are named. When ctx ends it stops early with
// ctx's error. It removes what it has made, whatever happens.
func Run(ctx context.Context, o Options, parts []string) (result *Result, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(o.Dir, "mailroom-bench-*")
	if err != nil {
		return nil, fmt.Errorf("make a folder to measure in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	b := &bench{Options: o, dir: folder, result: &Result{Settings: Settings{
		Seconds: o.For.Seconds(), WarmupSeconds: o.warmup().Seconds(), Scale: o.Scale,
		Producers: o.Producers, Slots: o.Slots, Threads: o.scaled(threads, 100),
	}}}
	if b.result.Machine, err = describeMachine(ctx, folder, o.Version); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name    string
		measure func(ctx context.Context, dir string) error
	}{
		{PartMemory, b.memory}, // first: what others leave behind would be counted
		{PartRuns, b.runs}, {PartLatency, b.latency}, {PartGrowth, b.growth}, {PartRestart, b.restart}, {PartFanout, b.fanout},
		{PartStalled, b.stalled},
	} {
		if !slices.Contains(parts, part.name) {
			continue
		}
		if err := b.inTempDir(part.name, func(dir string) error { return part.measure(ctx, dir) }); err != nil {
			return nil, fmt.Errorf("measure %s: %w", part.name, err)
		}
	}
	return b.result, nil
}

// inTempDir gives f a folder of its own and removes it.
func (b *bench) inTempDir(name string, f func(dir string) error) error {
	dir := filepath.Join(b.dir, name)
	if err := mkdir(dir); err != nil {
		return err
	}
	return errors.Join(f(dir), os.RemoveAll(dir))
}

func mkdir(dir string) error { return os.Mkdir(dir, 0o700) }

// runs measures how many complete runs a second go.
func (b *bench) runs(ctx context.Context, dir string) error {
	b.Progress("runs: %d producers, %d threads, %s after %s of warm-up", b.Producers, b.result.Settings.Threads, b.For, b.warmup())
	r, err := b.measureLoad(ctx, dir, load{})
	b.result.Runs = r
	return err
}

// latency measures at steady rates, and at as many as go.
func (b *bench) latency(ctx context.Context, dir string) error {
	for _, rate := range []int{100, 1000, 0} {
		if rate == 0 && b.result.Runs != nil {
			b.result.Latency = append(b.result.Latency, *b.result.Runs)
			continue
		}
		b.Progress("latency: %s", Rate(rate))
		err := b.inTempDir(filepath.Join(PartLatency, strconv.Itoa(rate)), func(dir string) error {
			l, err := b.measureLoad(ctx, dir, load{rate: rate})
			if err == nil {
				b.result.Latency = append(b.result.Latency, *l)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Rate is a rate in words.
func Rate(perSecond int) string {
	if perSecond == 0 {
		return "as many as go"
	}
	return strconv.Itoa(perSecond) + " submits a second"
}
