package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// buildBD builds bd from this tree.
func buildBD(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bd")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/bd")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build bd: %v\n%s", err, out)
	}
	return path
}

func TestEveryCommandIsMeasuredAndNothingIsLeft(t *testing.T) {
	bd, disk := buildBD(t), t.TempDir()
	small := []string{"-rounds", "1", "-issues", "300", "-crowd", "4", "-import", "40", "-data", disk}
	var out, progress strings.Builder
	if err := run(t.Context(), append(small, "-json", bd), &out, &progress); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Commands, func(row Row) bool { return row.Command == "rename-prefix" && row.Median > 0 }) {
		t.Errorf("commands %v, want rename-prefix", r.Commands)
	}
	if !slices.ContainsFunc(r.Crowds, func(c Crowd) bool {
		return c.What == "4 creates of equal titles at once" && c.Kept == 4
	}) {
		t.Errorf("issues with equal titles: %v, want 4", r.Crowds)
	}
	if !slices.ContainsFunc(r.Crowds, func(c Crowd) bool { return c.Kept == 40 }) {
		t.Errorf("imported issues: %v, want 40", r.Crowds)
	}
	if !strings.Contains(progress.String(), "round 1 of 1") {
		t.Errorf("progress: got %q, want the round", progress.String())
	}
	left, err := os.ReadDir(disk)
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files %v, %v; want none", left, err)
	}
	out.Reset()
	if err := printReport(&out, r); err != nil || !strings.Contains(out.String(), "\nrename-prefix ") {
		t.Errorf("report as text: %v\n%s", err, out.String())
	}
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"-rounds", "0", "true"}, "-rounds 0 measures nothing"},
		{[]string{"-issues", "many", "true"}, `"many" is not a number`},
		{nil, "name the program to measure"},
		{[]string{"./not-there"}, "find the program to measure"},
	} {
		var out strings.Builder
		if err := run(t.Context(), x.args, &out, &out); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: error %v, want %q", x.args, err, x.want)
		}
	}
}
