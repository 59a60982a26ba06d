package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// testTime bounds the tests of one mutant. It is longer than the five minutes after which a test gives up waiting for
// a state and fails. A test that reaches it waits forever or is slow, and proves nothing.
const testTime = "6m"

// fate is what became of a mutant.
type fate string

const (
	killed    fate = "killed by"
	survived  fate = "SURVIVED"
	notJudged fate = "NOT JUDGED by"
)

// verdict is the fate of a mutant, with the test that failed, or the reason why none did.
type verdict struct {
	fate   fate
	test   string
	reason string
	output string // end of the output of a mutant that was not judged
}

// provenBy names the test that decided the fate of a mutant.
func (m mutant) provenBy(v verdict) string {
	if v.test != "" {
		return m.pkg + "." + v.test
	}
	return m.pkg + " " + m.test
}

// judge runs the tests of the mutant.
func (m mutant) judge(ctx context.Context, dir string) (verdict, error) {
	overlay, err := m.overlay(dir)
	if err != nil {
		return verdict{}, err
	}
	// -v distinguishes a test that ran from one that does not exist. Vet and the tables for debuggers cost a third
	// of the time and judge nothing.
	args := []string{"test", "-count=1", "-v", "-vet=off", "-ldflags=-s -w", "-timeout", testTime, "-overlay", overlay, "-run", m.test, "."}
	if m.pkg == "ledger" {
		args = append(args, "-rapid.nofailfile") // a counterexample of a mutant does not belong in the tree
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.FromSlash(m.pkg) // the package may be a module of its own
	cmd.WaitDelay = 10 * time.Second    // a process that a test leaves holds the output open
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		if _, isExit := errors.AsType[*exec.ExitError](err); !isExit {
			return verdict{}, err
		}
	}
	return verdictOf(string(out)), nil
}

var (
	failedTest = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	passedTest = regexp.MustCompile(`(?m)^--- PASS: `)
	ranOut     = regexp.MustCompile(`(?m)^panic: test timed out after `)
	panicked   = regexp.MustCompile(`(?m)^(?:panic|fatal error): `)
)

// verdictOf reads the output of go test -v.
func verdictOf(out string) verdict {
	end := out[max(0, len(out)-2000):]
	switch failed := failedTest.FindAllStringSubmatch(out, -1); {
	case ranOut.MatchString(out):
		return verdict{notJudged, "", "the test did not end within " + testTime, end}
	case len(failed) > 0:
		return verdict{killed, failed[len(failed)-1][1], "", ""} // parents come before their subtests
	case panicked.MatchString(out):
		return verdict{killed, "", "", ""}
	case passedTest.MatchString(out):
		return verdict{survived, "", "the test passes", ""}
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return verdict{notJudged, "", "it does not compile", end}
	}
	return verdict{notJudged, "", "no test ran", end}
}

// overlay writes the changed file and the list that makes the compiler read it, and returns the path of the list.
func (m mutant) overlay(dir string) (string, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("the text to change occurs %d times, not once: %q", n, m.old)
	}
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, replace, 0o600)
}
