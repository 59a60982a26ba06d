package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// measureMailroom measures Mailroom in a process of its own, which generates the same load.
func measureMailroom(ctx context.Context, program string, l load, dir string) (figures, error) {
	part := "runs"
	if l.rate > 0 {
		part = "latency"
	}
	cmd := exec.CommandContext(ctx, program, "bench", part, "--for", l.last.String(), "--data", dir, "-o", "json",
		"--producers", strconv.Itoa(l.producers), "--slots", strconv.Itoa(l.slots))
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
				RunsPerSecond: m.RunsPerSecond, SubmitP50: m.Submit.P50, SubmitP99: m.Submit.P99,
				StartP50: m.Start.P50, StartP99: m.Start.P99,
			}, nil
		}
	}
	return figures{}, fmt.Errorf("%s bench has no results for %d submits per second: use 100 or 1000", program, l.rate)
}
