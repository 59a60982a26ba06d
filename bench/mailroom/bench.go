package main

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

// Names of the parts.
const (
	PartRuns    = "runs"    // complete runs per second at full load
	PartLatency = "latency" // times at steady rates
	PartLone    = "lone"    // runs with nothing beside them
	PartSteady  = "steady"  // size of the store and cost of a run over a long time
	PartGrowth  = "growth"  // cost of a long log and a long queue
	PartHTTP    = "http"    // complete runs per second of clients that submit and wait over HTTP
	PartWorkers = "workers" // a worker in another process, in each language
	PartRestart = "restart" // time until a server with a backlog serves requests
	PartQueries = "queries" // requests that count and filter, on a small and a large store
	PartFanout  = "fanout"  // one run with many readers
	PartStalled = "stalled" // cost of stalled readers
	PartMemory  = "memory"  // memory and disk per object

	PartSchedules = "schedules" // many schedules that each send a message a minute
)

// Parts returns the names of all parts, in their documented order.
func Parts() []string {
	return []string{PartRuns, PartLatency, PartLone, PartSteady, PartGrowth, PartHTTP, PartWorkers, PartRestart,
		PartQueries, PartFanout, PartStalled, PartMemory, PartSchedules}
}

// Options of a measurement.
type Options struct {
	// Dir is where the temporary folder of the measurement is created; "" is the
	// system's folder for temporary files.
	Dir string
	For time.Duration // duration of each measurement
	// Scale is the fraction of the full sizes (10,000 threads, 100,000
	// entries, 1,000,000 queued runs, 1,000 readers, …); less than 1 is for quick
	// trials.
	Scale     float64
	Producers int // concurrent submits
	Slots     int // concurrent runs
	// Rate is the number of submits per second of the steady part; 0 selects half of the full rate.
	Rate int
	// Store is the URL of a PostgreSQL database to measure instead of a SQLite file. Each load creates its own schema
	// in the database and drops it.
	Store string
	// Writers is the number of writing connections of a server on Store.
	Writers int
	// QueryRuns is the number of runs in the large store of PartQueries.
	QueryRuns int
	// Keep is a folder in which the stores of PartQueries stay. The next call only measures them. "" removes them.
	Keep string
	// Nodes is the number of servers that share Store. If there are several, each is a separate process with its own
	// producers and slots.
	Nodes int
	// Keys is set if submits have idempotency keys.
	Keys    bool
	Version string
	// Executable is the path of this program, which bench starts as a server and as
	// readers.
	Executable string
	// Clients is the folder of the client libraries, clients of the source tree.
	Clients string
	// Config is a configuration in which the agent echo does not pause between words. AgentVersion is the version of
	// that agent.
	Config       string
	AgentVersion string
	Progress     func(format string, args ...any) // prints progress
}

// Limits of the options. With larger values the machine would swap memory to disk, and the measurement would show
// that.
const (
	MaxFor       = time.Hour
	MaxProducers = 4096
	MaxSlots     = 4096
	maxWriters   = 16
	maxRate      = 1_000_000
	maxQueryRuns = 10_000_000
)

// storeKind returns the kind of the measured store.
func (o *Options) storeKind() string {
	if o.Store == "" {
		return "sqlite"
	}
	return "postgres"
}

// Check validates the options.
func (o *Options) Check() error {
	switch {
	case o.For < 100*time.Millisecond || o.For > MaxFor:
		return fmt.Errorf("invalid --for %s: use 100ms to %s", o.For, MaxFor)
	case !(o.Scale > 0 && o.Scale <= 1):
		return fmt.Errorf("invalid --scale %v: use a fraction above 0, at most 1", o.Scale)
	case o.Rate < 0 || o.Rate > maxRate:
		return fmt.Errorf("invalid --rate %d: use 1 to %d, or 0 for half of the full rate", o.Rate, maxRate)
	case o.Producers < 1 || o.Producers > MaxProducers:
		return fmt.Errorf("invalid --producers %d: use 1 to %d", o.Producers, MaxProducers)
	case o.Writers < 1 || o.Writers > min(maxWriters, o.Slots):
		return fmt.Errorf("invalid --writers %d: use 1 to %d, and at most one for a slot", o.Writers, maxWriters)
	case o.QueryRuns < 1000 || o.QueryRuns > maxQueryRuns:
		return fmt.Errorf("invalid --runs %d: use 1000 to %d", o.QueryRuns, maxQueryRuns)
	case o.Nodes < 1 || o.Nodes > MaxNodes:
		return fmt.Errorf("invalid --nodes %d: use 1 to %d", o.Nodes, MaxNodes)
	case o.Nodes > 1 && o.Store == "":
		return errors.New("--nodes needs --store: several servers cannot share a file")
	case o.Slots < 1 || o.Slots > MaxSlots:
		return fmt.Errorf("invalid --slots %d: use 1 to %d", o.Slots, MaxSlots)
	}
	return nil
}

// scaled returns full multiplied by the scale, but not less than least.
func (o *Options) scaled(full, least int) int {
	return max(least, int(float64(full)*o.Scale))
}

// warmup returns how long a load runs before it is measured.
func (o *Options) warmup() time.Duration {
	return min(o.For/5, 3*time.Second)
}

// Result is the result of a measurement. Parts that were not selected are nil.
type Result struct {
	Machine  Machine  `json:"machine"`
	Settings Settings `json:"settings"`
	Runs     *Load    `json:"runs,omitempty"`
	Latency  []Load   `json:"latency,omitempty"`
	Lone     []Load   `json:"lone,omitempty"`
	Steady   *Steady  `json:"steady,omitempty"`
	Growth   *Growth  `json:"growth,omitempty"`
	HTTP     *Load    `json:"http,omitempty"`
	Workers  *Workers `json:"workers,omitempty"`
	Restart  *Restart `json:"restart,omitempty"`
	Queries  *Queries `json:"queries,omitempty"`
	Fanout   []Fanout `json:"fanout,omitempty"`
	Stalled  *Stalled `json:"stalled,omitempty"`
	Memory   *Memory  `json:"memory,omitempty"`

	Schedules *Schedules `json:"schedules,omitempty"`
}

// Settings describes the load.
type Settings struct {
	Seconds       float64 `json:"seconds"`
	WarmupSeconds float64 `json:"warmup_seconds"`
	Scale         float64 `json:"scale"`
	Store         string  `json:"store"`   // sqlite or postgres
	Writers       int     `json:"writers"` // writing connections; only on PostgreSQL
	Nodes         int     `json:"nodes"`
	Keys          bool    `json:"keys"`
	Producers     int     `json:"producers"`
	Slots         int     `json:"slots"`
	Threads       int     `json:"threads"`
}

// threads is the number of threads to which a load submits in turn.
const threads = 10_000

// bench is the state of one measurement.
type bench struct {
	Options
	dir    string
	result *Result
}

// Run measures the given parts. It stops with ctx's error when ctx is done, and removes its
// files in every case.
func Run(ctx context.Context, o Options, parts []string) (result *Result, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(o.Dir, "mailroom-bench-*")
	if err != nil {
		return nil, fmt.Errorf("create a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	b := &bench{Options: o, dir: folder, result: &Result{Settings: Settings{
		Seconds: o.For.Seconds(), WarmupSeconds: o.warmup().Seconds(), Scale: o.Scale,
		Store: o.storeKind(), Writers: o.Writers, Nodes: o.Nodes, Keys: o.Keys, Producers: o.Producers, Slots: o.Slots,
		Threads: o.scaled(threads, 100),
	}}}
	if b.result.Machine, err = describeMachine(ctx, folder, o.Version); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name    string
		measure func(ctx context.Context, dir string) error
	}{
		{PartMemory, b.memory}, // first, because it would count memory of the other parts
		{PartRuns, b.runs}, {PartLatency, b.latency}, {PartLone, b.lone}, {PartSteady, b.steady}, {PartGrowth, b.growth},
		{PartHTTP, b.http}, {PartWorkers, b.workers}, {PartRestart, b.restart}, {PartQueries, b.queries},
		{PartFanout, b.fanout}, {PartStalled, b.stalled}, {PartSchedules, b.schedules},
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

// inTempDir calls f with a new folder and removes it afterwards.
func (b *bench) inTempDir(name string, f func(dir string) error) error {
	dir := filepath.Join(b.dir, name)
	if err := mkdir(dir); err != nil {
		return err
	}
	return errors.Join(f(dir), os.RemoveAll(dir))
}

func mkdir(dir string) error { return os.Mkdir(dir, 0o700) }

// runs measures complete runs per second.
func (b *bench) runs(ctx context.Context, dir string) error {
	b.Progress("runs: %d producers, %d threads, %s after %s of warm-up", b.Producers, b.result.Settings.Threads, b.For,
		b.warmup())
	r, err := b.measureLoad(ctx, dir, load{})
	b.result.Runs = r
	return err
}

// loneRates returns numbers of submits per second that are so low that most runs are alone in the server.
func loneRates() []int { return []int{100, 1000} }

// latency measures times at steady rates and at full load.
func (b *bench) latency(ctx context.Context, dir string) (err error) {
	for _, rate := range loneRates() {
		if err := b.measureRate(ctx, dir, rate, &b.result.Latency); err != nil {
			return err
		}
	}
	if b.result.Runs != nil && b.Nodes == 1 {
		b.result.Latency = append(b.result.Latency, *b.result.Runs)
		return nil
	}
	return b.measureRate(ctx, dir, 0, &b.result.Latency)
}

// lone measures the loads at the rates of [loneRates], which are steady.
func (b *bench) lone(ctx context.Context, dir string) error {
	if b.result.Latency != nil {
		b.result.Lone = b.result.Latency[:len(loneRates())]
		return nil
	}
	for _, rate := range loneRates() {
		if err := b.measureRate(ctx, dir, rate, &b.result.Lone); err != nil {
			return err
		}
	}
	return nil
}

// measureRate appends the result of a load at a rate; 0 is full load.
func (b *bench) measureRate(ctx context.Context, dir string, rate int, to *[]Load) error {
	b.Progress("latency: %s", Rate(rate))
	return b.inTempDir(filepath.Join(filepath.Base(dir), strconv.Itoa(rate)), func(dir string) error {
		l, err := b.measureLoad(ctx, dir, load{rate: rate, apart: b.Nodes > 1})
		if err == nil {
			*to = append(*to, *l)
		}
		return err
	})
}

// Rate formats a rate.
func Rate(perSecond int) string {
	if perSecond == 0 {
		return "full load"
	}
	return strconv.Itoa(perSecond) + " submits/s"
}
