package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mailroom/internal/pgtest"
)

// contender is a queue to compare, Mailroom included.
type contender struct {
	name     string
	settings string
	needs    func() error // returns what this machine lacks; nil: no requirements
	measure  func(ctx context.Context, l load, dir string) (figures, error)
}

// mailroom is the contender that the others are compared with.
const mailroom = "mailroom"

func contenders(program string) []contender {
	var all []contender
	for _, v := range variants() {
		all = append(all, contender{name: v.name, settings: v.settings(), needs: v.needs,
			measure: func(ctx context.Context, l load, dir string) (figures, error) {
				return v.measure(ctx, program, l, dir)
			}})
	}
	for _, p := range []struct {
		name  string
		make  func() namedPeer
		needs func() error
	}{
		{"river-postgres", func() namedPeer { return &riverPostgres{} }, pgtest.Installed},
		{"river-sqlite", func() namedPeer { return &riverSQLite{} }, nil},
		{"asynq", func() namedPeer { return &asynqPeer{} }, needsRedis},
		{"goqite", func() namedPeer { return &goqitePeer{} }, nil},
		{"jetstream", func() namedPeer { return &jetStream{} }, nil},
	} {
		all = append(all, contender{name: p.name, settings: p.make().settings(), needs: p.needs,
			measure: func(ctx context.Context, l load, dir string) (figures, error) {
				return measure(ctx, p.make(), l, dir)
			}})
	}
	return all
}

// namedPeer is a peer that describes its settings.
type namedPeer = interface {
	peer
	settings() string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	interrupted := ctx.Err() != nil
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil && interrupted {
		os.Exit(130)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	l := load{}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	program := flags.String("mailroom", "bin/mailroom", "the built program")
	rounds := flags.Int("rounds", 3, "rounds for each contender")
	only := flags.String("only", "", "contenders to measure, comma-separated (default: all)")
	data := flags.String("data", "", "folder on the disk to measure (default: the temporary folder)")
	asJSON := flags.Bool("json", false, "print every round as JSON")
	flags.DurationVar(&l.last, "for", 10*time.Second, "duration of each measurement, after a warm-up")
	flags.IntVar(&l.rate, "rate", 0, "submits per second, 100 or 1000 (default: as many as possible)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *rounds < 1 || l.last < time.Second || l.rate < 0 {
		return errors.New(
			"invalid arguments: give flags only; -rounds is 1 or more, -for 1s or more, -rate 0 or more: see -help")
	}
	l.producers, l.slots, l.warmup = 64, 128, min(l.last/5, 3*time.Second)
	chosen, err := choose(contenders(*program), *only)
	if err != nil {
		return err
	}
	for _, c := range chosen {
		if c.needs == nil {
			continue
		}
		if err := c.needs(); err != nil {
			return fmt.Errorf("%s cannot be measured: %w; or leave it out with -only", c.name, err)
		}
	}
	results, err := measureRounds(ctx, chosen, l, *rounds, *data)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(os.Stdout).Encode(results)
	}
	return printTable(os.Stdout, chosen, results)
}

// choose selects contenders by name. Mailroom is always included.
func choose(all []contender, only string) ([]contender, error) {
	if only == "" {
		return all, nil
	}
	chosen := all[:1:1]
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(c contender) bool { return c.name == name })
		if i < 0 {
			names := []string{}
			for _, c := range all {
				names = append(names, c.name)
			}
			return nil, fmt.Errorf("unknown contender %q: use one of %s", name, strings.Join(names, ", "))
		}
		if i > 0 {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, nil
}

// measureRounds measures the contenders in turn, so that other load on the machine affects all
// alike. Each round begins with a different contender.
func measureRounds(
	ctx context.Context, chosen []contender, l load, rounds int, data string,
) (_ map[string][]figures, err error) {
	folder, err := os.MkdirTemp(data, "peers-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	results := map[string][]figures{}
	for round := range rounds {
		for i := range chosen {
			c := chosen[(i+round)%len(chosen)]
			dir := filepath.Join(folder, strconv.Itoa(round)+c.name)
			if err := os.Mkdir(dir, 0o700); err != nil {
				return nil, err
			}
			f, err := c.measure(ctx, l, dir)
			if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s: %.0f/s, submit p50 %.2f ms, p99 %.2f ms\n", round+1, rounds, c.name,
				f.RunsPerSecond, f.SubmitP50, f.SubmitP99)
			results[c.name] = append(results[c.name], f)
		}
	}
	return results, nil
}
