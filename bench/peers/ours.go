package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"mailroom/internal/pgtest"
)

// variant is one way to run Mailroom in the comparison.
type variant struct {
	name  string
	nodes int // servers on PostgreSQL; 0: SQLite
	keys  bool
}

// variants returns the ways to run Mailroom that are compared. The first is a single server.
func variants() []variant {
	return []variant{
		{name: mailroom}, {name: "mailroom-keys", keys: true},
		{name: "postgres", nodes: 1}, {name: "postgres-keys", nodes: 1, keys: true},
		{name: "postgres-2-keys", nodes: 2, keys: true}, {name: "postgres-3-keys", nodes: 3, keys: true},
	}
}

func (v variant) settings() string {
	text := "bin/mailroom bench, in a process of its own: the echo agent without delay, with log, claim and reply of each run"
	switch v.nodes {
	case 0:
		text += "; SQLite WAL, synchronous=FULL"
	case 1:
		text += "; the PostgreSQL of River, one server"
	default:
		text += fmt.Sprintf("; the PostgreSQL of River, %d servers with as many producers and slots each", v.nodes)
	}
	if v.keys {
		text += "; each submit with an idempotency key"
	}
	return text
}

// needs returns an error that names what this machine lacks for the variant, or nil.
func (v variant) needs() error {
	if v.nodes == 0 {
		return nil
	}
	return pgtest.Installed()
}

// measure measures Mailroom in processes of its own, which generate the same load.
func (v variant) measure(ctx context.Context, program string, l load, dir string) (figures, error) {
	args := []string{}
	if v.keys {
		args = append(args, "--keys")
	}
	if v.nodes == 0 {
		return measureMailroom(ctx, program, l, dir, args...)
	}
	server, err := startPostgres(ctx, dir)
	if err != nil {
		return figures{}, err
	}
	f, err := measureMailroom(ctx, program, l, dir, append(args, "--store", server.URL(), "--nodes",
		strconv.Itoa(v.nodes))...)
	if err = errors.Join(err, server.Stop()); err == nil {
		f.DatabaseCPU = perRun(server.CPUTime(), f, l)
	}
	return f, errors.Join(err, server.Close())
}

// measureMailroom runs the benchmark of Mailroom.
func measureMailroom(ctx context.Context, program string, l load, dir string, args ...string) (figures, error) {
	part := "runs"
	if l.rate > 0 {
		part = "latency"
	}
	cmd := exec.CommandContext(ctx, program,
		append([]string{"bench", part, "--for", l.last.String(), "--data", dir, "-o", "json",
			"--producers", strconv.Itoa(l.producers), "--slots", strconv.Itoa(l.slots)}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it removes its files
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			_, _ = os.Stderr.Write(exit.Stderr) // best effort: the error is returned anyway
		}
		return figures{}, fmt.Errorf("run %s bench: %w", program, err)
	}
	type times struct {
		P50 float64 `json:"p50_ms"`
		P99 float64 `json:"p99_ms"`
	}
	type measured struct {
		Rate          int     `json:"rate"`
		RunsPerSecond float64 `json:"runs_per_second"`
		CPU           float64 `json:"cpu_ms_per_run"`
		Submit        times   `json:"submit"`
		Start         times   `json:"start"`
	}
	var result struct {
		Runs    measured   `json:"runs"`
		Latency []measured `json:"latency"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return figures{}, fmt.Errorf("parse the results of %s bench: %w", program, err)
	}
	for _, m := range append(result.Latency, result.Runs) {
		if m.Rate == l.rate && m.RunsPerSecond > 0 {
			return figures{
				RunsPerSecond: m.RunsPerSecond, CPU: m.CPU, SubmitP50: m.Submit.P50, SubmitP99: m.Submit.P99,
				StartP50: m.Start.P50, StartP99: m.Start.P99,
			}, nil
		}
	}
	return figures{}, fmt.Errorf("%s bench has no results for %d submits per second: use 100 or 1000", program, l.rate)
}
