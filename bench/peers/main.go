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
)

// contender is somebody who is measured.
type contender struct {
	name     string
	settings string
	needs    func() error // says what is missing on this machine; nil: nothing can be
	measure  func(ctx context.Context, l load, dir string) (figures, error)
}

// mailroom is the name that all others are compared with.
const mailroom = "mailroom"

func contenders(program string) []contender {
	all := []contender{{
		name: mailroom, settings: "bin/mailroom bench, in a process of its own: the echo agent at no pace, with log, claim and reply of each run; SQLite WAL, synchronous=FULL",
		measure: func(ctx context.Context, l load, dir string) (figures, error) { return ours(ctx, program, l, dir) },
	}}
	for _, p := range []struct {
		name  string
		make  func() described
		needs func() error
	}{
		{"river-postgres", func() described { return &riverPostgres{} }, needsPostgres},
		{"river-sqlite", func() described { return &riverSQLite{} }, nil},
		{"asynq", func() described { return &asynqPeer{} }, needsRedis},
		{"goqite", func() described { return &goqitePeer{} }, nil},
		{"jetstream", func() described { return &jetStream{} }, nil},
	} {
		all = append(all, contender{name: p.name, settings: p.make().settings(), needs: p.needs, measure: func(ctx context.Context, l load, dir string) (figures, error) {
			return measure(ctx, p.make(), l, dir)
		}})
	}
	return all
}

// described is a peer that says how it is set.
type described = interface {
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
	rounds := flags.Int("rounds", 3, "how often each is measured, in turn")
	only := flags.String("only", "", "names of those that are measured, with commas (default: all)")
	data := flags.String("data", "", "folder on the disk that is meant (default: the system's for temporary files)")
	asJSON := flags.Bool("json", false, "print every round as JSON")
	flags.DurationVar(&l.last, "for", 10*time.Second, "how long each is measured, after a warm-up")
	flags.IntVar(&l.rate, "rate", 0, "submits a second, 100 or 1000 (default: as many as go)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *rounds < 1 || l.last < time.Second || l.rate < 0 {
		return errors.New("there are no arguments; -rounds is 1 or more, -for 1s or more, -rate 0 or more: see -help")
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
	results, err := rounded(ctx, chosen, l, *rounds, *data)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(os.Stdout).Encode(results)
	}
	return printTable(os.Stdout, chosen, results)
}

// choose picks by name; ours is always among them.
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
			return nil, fmt.Errorf("nobody is called %q: choose of %s", name, strings.Join(names, ", "))
		}
		if i > 0 {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, nil
}

// rounded measures all in turn, so that what the machine does beside meets all
// of them. Each round begins with another one.
func rounded(ctx context.Context, chosen []contender, l load, rounds int, data string) (_ map[string][]figures, err error) {
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
			fmt.Fprintf(os.Stderr, "round %d of %d: %s: %.0f/s, submit p50 %.2f ms, p99 %.2f ms\n", round+1, rounds, c.name, f.RunsPerSecond, f.SubmitP50, f.SubmitP99)
			results[c.name] = append(results[c.name], f)
		}
	}
	return results, nil
}
