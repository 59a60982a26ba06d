package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom/cmd/mailroom/internal/bench"
	"mailroom/cmd/mailroom/internal/config"
)

func (m *Main) benchCommand() *cobra.Command {
	o := bench.Options{}
	profile := ""
	cmd := &cobra.Command{
		Use:   "bench [PART]…",
		Short: "Measure how fast it is on this machine",
		Long: `Measure how fast it is on this machine: the real ledger, engine and SQLite file,
with every acknowledgement on disk before it is given. Nothing that is there is
touched: it works in a folder of its own, made in --data (default: the system's
folder for temporary files) and removed at the end. Choose one on the disk that
is meant. Parts, all by default:

  runs      complete runs a second, with as many submits as go
  latency   from submit to start and to end, at 100/s, 1,000/s and as many as go
  growth    what a log of 100,000 entries and 1,000,000 queued runs cost
  restart   until a server with 100,000 queued runs serves
  fanout    one run that writes 50 pieces a second, with 1,000 readers
  stalled   what readers that take nothing cost a run and 100 other readers
  memory    per thread, queued run and reader, and bytes on disk`,
		Example: `  mailroom bench runs --for 60s
  mailroom bench --scale 0.01
  mailroom bench -o json > figures.json`,
		ValidArgs: bench.Parts(),
	}
	output := formatFlag(cmd)
	cmd.Flags().DurationVar(&o.For, "for", 10*time.Second, "how long each load is measured, after a warm-up of a fifth of it (3s at most)")
	cmd.Flags().Float64Var(&o.Scale, "scale", 1, "fraction of the full sizes, for a trial")
	cmd.Flags().IntVar(&o.Producers, "producers", 64, "how many submit at the same time")
	cmd.Flags().IntVar(&o.Slots, "slots", 128, "how many runs go at the same time")
	cmd.Flags().StringVar(&profile, "cpuprofile", "", "write a CPU profile of the whole measurement to this file")
	cmd.RunE = func(cmd *cobra.Command, parts []string) error {
		for _, part := range parts {
			if !slices.Contains(bench.Parts(), part) {
				return &usageError{command: cmd.CommandPath(), err: fmt.Errorf("no part is called %q: choose of %s", part, strings.Join(bench.Parts(), ", "))}
			}
		}
		if len(parts) == 0 {
			parts = bench.Parts()
		}
		if err := o.Check(); err != nil {
			return &usageError{command: cmd.CommandPath(), err: err}
		}
		if err := m.prepareBench(&o); err != nil {
			return err
		}
		result, err := withProfile(cmd.Context(), profile, func(ctx context.Context) (*bench.Result, error) {
			return bench.Run(ctx, o, parts)
		})
		if err != nil {
			return err
		}
		return m.printBench(result, *output)
	}
	cmd.AddCommand(m.benchReadersCommand())
	return cmd
}

// benchConfig is the configuration of the servers that are measured.
const benchConfig = "[agents.echo]\npace = \"0s\"\nkind = \"echo\"\n"

// prepareBench fills in what a measurement needs to know of this program.
func (m *Main) prepareBench(o *bench.Options) error {
	o.Dir, o.Version, o.Progress, o.Config = m.data, version().Version, m.infof, benchConfig
	c, err := config.Parse("bench.toml", []byte(benchConfig))
	if err != nil {
		return err
	}
	if o.AgentVersion, err = c.Agents["echo"].Version(); err != nil {
		return err
	}
	if o.Executable, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return nil
}

// benchReadersCommand is the process of its own that the readers of a
// measurement are. Only bench starts it.
func (m *Main) benchReadersCommand() *cobra.Command {
	reading := bench.ReaderOptions{}
	cmd := &cobra.Command{
		Use:    "readers COUNT THREAD",
		Short:  "Follow a thread many times (used by bench itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return &usageError{command: cmd.CommandPath(), err: fmt.Errorf("%q is no number of readers", args[0])}
			}
			reading.URL, reading.Token = m.Env("MAILROOM_URL"), m.Env("MAILROOM_TOKEN")
			reading.Readers, reading.Thread = n, args[1]
			return bench.RunReaders(cmd.Context(), m.Stdin, m.Stdout, reading)
		},
	}
	cmd.Flags().BoolVar(&reading.Sockets, "sockets", false, "read over WebSockets")
	cmd.Flags().IntVar(&reading.Runs, "runs", 1, "after how many runs a reader over a WebSocket has enough")
	return cmd
}

// withProfile measures with a CPU profile, if a file is named for it.
func withProfile(ctx context.Context, file string, measure func(context.Context) (*bench.Result, error)) (result *bench.Result, err error) {
	if file == "" {
		return measure(ctx)
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, exitErrorf(exitUsage, "", "write the profile: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("write the profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return measure(ctx)
}
