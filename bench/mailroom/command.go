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

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/node"
	"mailroom/internal/version"
)

// rootCommand returns the program's command.
func rootCommand(con *command.Console) *cobra.Command {
	o := Options{}
	profile, other, rounds := "", "", 0
	cmd := &cobra.Command{
		Use:   "mailroom-bench [PART]…",
		Short: "Measure performance on this machine",
		Long: `Measure performance on this machine, with the real ledger, engine and SQLite file.
Every acknowledgement is on disk before it is sent. Existing data is not touched:
mailroom-bench creates a temporary folder in --data (default: the system's temporary folder)
and removes it at the end. Choose a folder on the disk to measure. Parts (default: all):

  runs      complete runs per second at full load
  latency   from submit to start and to end, at 100/s, 1,000/s and full load
  lone      the same at 100/s and 1,000/s only
  steady    half of the full load, with a retention of a twelfth of the time:
            size of the store and cost of a run over time
  growth    cost of a log of 100,000 entries, of 1,000,000 queued runs, and of 1,000 keys
  http      complete runs per second of clients that submit and wait over HTTP
  workers   a worker process in Go, Python and JavaScript: runs per second, CPU,
            delay to the start at 100/s, requests while idle
  restart   time until a server with 100,000 queued runs serves requests
  queries   requests that count and filter, on 6,000 and on 600,000 runs (--runs)
  fanout    one run that streams 50 deltas per second to 1,000 readers
  stalled   cost of stalled readers for a run and 100 other readers
  memory    memory and disk per thread, queued run and reader
  schedules 10,000 schedules that each send a message a minute`,
		Example: `  mailroom-bench runs --for 60s
  mailroom-bench --scale 0.01
  mailroom-bench runs --keys --store postgres://localhost/mailroom
  mailroom-bench steady --for 1h
  mailroom-bench runs lone --against ./mailroom-bench-before --rounds 5
  mailroom-bench -o json > figures.json`,
		ValidArgs:         Parts(),
		Args:              cobra.ArbitraryArgs, // the parts
		SilenceErrors:     true,
		SilenceUsage:      true,
		Version:           "mailroom-bench " + version.Read().String(),
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return command.CheckEmptyFlags(cmd) },
	}
	prepareRoot(con, cmd)
	output := command.FormatFlag(cmd)
	loadFlags(cmd, &o)
	cmd.Flags().StringVar(&other, "against", "", "compare with another build of this program, or a mailroom that has the command bench, in alternating rounds")
	cmd.Flags().IntVar(&rounds, "rounds", 3, "rounds of --against")
	cmd.Flags().StringVar(&profile, "cpuprofile", "", "write a CPU profile of the whole measurement to this file")
	cmd.RunE = func(cmd *cobra.Command, parts []string) error {
		parts, err := o.selectParts(parts)
		if err != nil {
			return command.UsageErrorf(cmd, "%w", err)
		}
		if err := o.Check(); err != nil {
			return command.UsageErrorf(cmd, "%w", err)
		}
		if err := prepare(con, &o); err != nil {
			return err
		}
		if other != "" {
			c, err := Compare(cmd.Context(), o, parts, other, rounds)
			if err != nil {
				return err
			}
			return printComparison(con, c, *output)
		}
		result, err := withProfile(cmd.Context(), profile, func(ctx context.Context) (*Result, error) {
			return Run(ctx, o, parts)
		})
		if err != nil {
			return err
		}
		return printResult(con, result, *output)
	}
	cmd.AddCommand(readersCommand(con), childNode(con), serveCommand(con), workCommand(con), idlersCommand(con))
	return cmd
}

// loadFlags adds the flags that describe what is measured.
func loadFlags(cmd *cobra.Command, o *Options) {
	cmd.Flags().DurationVar(&o.For, "for", 10*time.Second, "duration of each measurement, after a warm-up of a fifth of it (at most 3s)")
	cmd.Flags().Float64Var(&o.Scale, "scale", 1, "fraction of the full sizes, for a quick trial")
	cmd.Flags().IntVar(&o.Producers, "producers", 64, "concurrent submits")
	cmd.Flags().IntVar(&o.Slots, "slots", 128, "concurrent runs")
	cmd.Flags().IntVar(&o.Rate, "rate", 0, "submits per second of steady (default: half of the full load)")
	cmd.Flags().StringVar(&o.Store, "store", "", "URL of a PostgreSQL database to measure instead of a file (runs, latency, steady and queries only)")
	cmd.Flags().IntVar(&o.QueryRuns, "runs", DefaultQueryRuns, "runs in the large store of queries; the small one has a hundredth")
	cmd.Flags().StringVar(&o.Keep, "keep", "", "folder in which the stores of queries stay")
	cmd.Flags().IntVar(&o.Writers, "writers", 2, "writing connections of a server on --store")
	cmd.Flags().IntVar(&o.Nodes, "nodes", 1, "servers that share --store, each a process with its own producers and slots; latency then submits at one and runs at the others")
	cmd.Flags().StringVar(&o.Clients, "clients", "clients", "folder of the client libraries, for workers")
	cmd.Flags().BoolVar(&o.Keys, "keys", false, "submit with idempotency keys")
}

// prepareRoot gives the root command of a program a version, and errors as the commands of mailroom report them.
func prepareRoot(con *command.Console, cmd *cobra.Command) {
	cmd.SilenceErrors, cmd.SilenceUsage, cmd.Version = true, true, "mailroom-bench "+version.Read().String()
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return command.CheckEmptyFlags(cmd) }
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return command.UsageErrorf(cmd, "%w", command.ExplainUsage(cmd, err))
	})
	cmd.SetIn(con.Stdin)
	cmd.SetOut(con.Stdout)
	cmd.SetErr(con.Stderr)
	cmd.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true})
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.PersistentFlags().StringVar(&con.Data, "data", "",
		"folder on the disk to measure (default: the system's temporary folder)")
}

// selectParts checks the parts of a command line; without any it returns all that can be measured.
func (o *Options) selectParts(parts []string) ([]string, error) {
	measurable := Parts()
	if o.Store != "" {
		measurable = onPostgres(o.Nodes)
	}
	for _, part := range parts {
		switch {
		case !slices.Contains(Parts(), part):
			return nil, fmt.Errorf("unknown part %q; use %s", part, strings.Join(Parts(), ", "))
		case !slices.Contains(measurable, part):
			return nil, fmt.Errorf("--store with these flags measures only %s, not %q", strings.Join(measurable, ", "), part)
		}
	}
	if len(parts) == 0 {
		return measurable, nil
	}
	return parts, nil
}

// onPostgres returns the parts that can be measured on PostgreSQL.
func onPostgres(nodes int) []string {
	if nodes > 1 {
		return []string{PartRuns, PartLatency, PartLone}
	}
	return []string{PartRuns, PartLatency, PartLone, PartSteady, PartQueries}
}

// serverConfig is the configuration of the measured servers.
const serverConfig = "[agents.echo]\npace = \"0s\"\nkind = \"echo\"\n"

// prepare sets the options that describe this program.
func prepare(con *command.Console, o *Options) error {
	o.Dir, o.Version, o.Progress, o.Config = con.Data, version.Read().Version, con.Infof, serverConfig
	c, err := config.Parse("bench.toml", []byte(serverConfig), nil, nil)
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

// readersCommand runs the readers of a measurement in a process of their own.
// Only bench starts it.
func readersCommand(con *command.Console) *cobra.Command {
	reading := ReaderOptions{}
	cmd := &cobra.Command{
		Use:    "readers COUNT THREAD",
		Short:  "Follow a thread with many readers (used by bench itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return command.UsageErrorf(cmd, "invalid number of readers %q", args[0])
			}
			reading.URL, reading.Token = con.Env("MAILROOM_URL"), con.Env("MAILROOM_TOKEN")
			reading.Readers, reading.Thread = n, args[1]
			return RunReaders(cmd.Context(), con.Stdin, con.Stdout, reading)
		},
	}
	cmd.Flags().BoolVar(&reading.Sockets, "sockets", false, "read over WebSockets instead of event streams")
	cmd.Flags().IntVar(&reading.Runs, "runs", 1, "number of runs after which a WebSocket reader ends")
	return cmd
}

// workCommand runs a worker of a measurement in a process of its own. Only bench starts it.
func workCommand(con *command.Console) *cobra.Command {
	return &cobra.Command{
		Use:    "work SLOTS",
		Short:  "Serve the agent of a measurement (used by bench itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return command.UsageErrorf(cmd, "invalid number of slots %q", args[0])
			}
			return runWorker(cmd.Context(), n)
		},
	}
}

// idlersCommand runs many workers that have nothing to do in a process of their own. Only bench starts it.
func idlersCommand(con *command.Console) *cobra.Command {
	return &cobra.Command{
		Use:    "idlers COUNT",
		Short:  "Wait for runs with many workers (used by bench itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return command.UsageErrorf(cmd, "invalid number of workers %q", args[0])
			}
			return runIdlers(cmd.Context(), con.Stdin, con.Stdout, con.Env("MAILROOM_URL"), con.Env("MAILROOM_TOKEN"), n)
		},
	}
}

// childNode runs one node of a measurement in a process of its own. Only bench starts it.
func childNode(con *command.Console) *cobra.Command {
	return &cobra.Command{
		Use:    "node",
		Short:  "Run one of several servers (used by bench itself)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNode(cmd.Context(), con.Stdin, con.Stdout)
		},
	}
}

// serveCommand runs the server that this program contains. Only bench starts it.
func serveCommand(con *command.Console) *cobra.Command {
	all := node.Commands(con)
	serve := all[slices.IndexFunc(all, func(c *cobra.Command) bool { return c.Name() == "serve" })]
	serve.Hidden = true
	return serve
}

// withProfile runs measure and writes a CPU profile of it to file, unless file is empty.
func withProfile(
	ctx context.Context, file string, measure func(context.Context) (*Result, error),
) (result *Result, err error) {
	if file == "" {
		return measure(ctx)
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, command.Errorf(command.ExitUsage, "", "write the profile: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("write the profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return measure(ctx)
}
