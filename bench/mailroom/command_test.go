package main

import (
	"encoding/json"
	"os/exec"
	"testing"

	"mailroom/internal/pgtest"
)

// Several servers on one database are measured together. With latency one submits and the others run.
func TestBenchMeasuresSeveralServers(t *testing.T) {
	cluster := pgtest.Durable(t)
	out, err := exec.Command("mailroom-bench", "runs", "latency", "--for", "1s", "--scale", "0.001", "--producers",
		"4", "--keys",
		"--nodes", "3", "--store", cluster.URL(), "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if r.Settings.Nodes != 3 || len(r.Latency) != 3 {
		t.Fatalf("got %d servers and %d loads, want 3 of each", r.Settings.Nodes, len(r.Latency))
	}
	for _, l := range append(r.Latency, *r.Runs) {
		if l.Runs == 0 || l.Submit.Count == 0 || l.Start.Count == 0 || l.Done.Count == 0 || l.CPUPerRun == 0 {
			t.Errorf("at %s: got %+v, want runs with times", Rate(l.Rate), l)
		}
	}
}

// A comparison measures another build of the program in the same rounds.
func TestBenchComparesTwoPrograms(t *testing.T) {
	program, err := exec.LookPath("mailroom-bench")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("mailroom-bench", "lone", "--for", "100ms", "--scale", "0.001", "--producers", "4",
		"--against", program, "--rounds", "2", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var c Comparison
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Results) != 2 || len(c.Figures) == 0 {
		t.Fatalf("got %d rounds with %d figures, want 2 with some", len(c.Results), len(c.Figures))
	}
	for _, f := range c.Figures {
		if f.Ratio.Min <= 0 || f.Ratio.Min > f.Ratio.Max {
			t.Errorf("%s: got the ratios %v", f.Name, f.Ratio)
		}
	}
}
