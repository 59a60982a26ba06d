// Command mutants breaks one guarantee after the other in the source and runs the test that proves
// it. A mutant whose test passes has survived: the test does not prove the guarantee. The tree
// itself is not changed: the compiler gets the changed file as an overlay.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// testTime bounds one test, because a mutant may make it wait forever.
const testTime = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	only := flag.String("only", "", "run only mutants of files whose path contains this")
	flag.Parse()
	survived, err := run(ctx, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if survived > 0 {
		os.Exit(1)
	}
}

// run runs all mutants in the module of the working directory, and returns the number of survivors.
func run(ctx context.Context, only string) (survived int, err error) {
	dir, err := os.MkdirTemp("", "mutants-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tried := 0
	for _, m := range mutants() {
		if !strings.Contains(m.file, only) {
			continue
		}
		killed, err := m.try(ctx, dir)
		if err != nil {
			return survived, fmt.Errorf("%s: %w", m.file, err)
		}
		tried++
		fate := "killed by"
		if !killed {
			fate = "SURVIVED"
			survived++
		}
		fmt.Printf("%-44s %-68s %s %s %s\n", m.file, m.breaks, fate, m.pkg, m.test)
	}
	if tried == 0 {
		return 0, fmt.Errorf("no mutant changes a file %q", only)
	}
	fmt.Printf("%d mutants, %d survived\n", tried, survived)
	return survived, nil
}

// try reports whether the mutant's test fails.
func (m mutant) try(ctx context.Context, dir string) (killed bool, err error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return false, err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return false, fmt.Errorf("the text to change occurs %d times, not once: %q", n, m.old)
	}
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return false, err
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		return false, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return false, err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	// -v distinguishes a test that ran from one that does not exist.
	args := []string{"test", "-count=1", "-v", "-overlay", list, "-run", m.test, "."}
	if m.pkg == "ledger" {
		args = append(args, "-rapid.nofailfile") // a counterexample of a mutant does not belong in the tree
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.FromSlash(m.pkg) // which may be a module of its own
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return true, nil // the test waits for an event that the mutant prevents
	case strings.Contains(string(out), "--- FAIL"):
		return true, nil
	case strings.Contains(string(out), "panic: "):
		return true, nil
	case err == nil && strings.Contains(string(out), "--- PASS"):
		return false, nil
	}
	return false, fmt.Errorf("the test neither failed nor passed: %w\n%.2000s", err, out)
}
