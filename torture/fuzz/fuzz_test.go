package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	found = "--- FAIL: FuzzPath (0.21s)\n    --- FAIL: FuzzPath (0.00s)\n        path_test.go:9: lost a byte\n    \n" +
		"    Failing input written to testdata/fuzz/FuzzPath/771e938e4458e983\n    To re-run:\n    go test -run=FuzzPath/771e938e4458e983\nFAIL\n"
	deadline = "fuzz: elapsed: 5s, execs: 1 (0/sec), new interesting: 0 (total: 9)\n" +
		"--- FAIL: FuzzPath (5.94s)\n    context deadline exceeded\nFAIL\n"
	seed = "--- FAIL: FuzzPath (0.01s)\n    --- FAIL: FuzzPath/seed#0 (0.00s)\n        path_test.go:9: context deadline exceeded\nFAIL\n"
)

func TestTheDeadlineOfTheFuzzCoordinatorIsNoFailure(t *testing.T) {
	exit := errors.New("exit status 1")
	for name, c := range map[string]struct {
		output string
		err    error
		want   outcome
	}{
		"passed":           {"PASS\n", nil, outcome{}},
		"an input failed":  {found, exit, outcome{failed: true, input: "testdata/fuzz/FuzzPath/771e938e4458e983"}},
		"the deadline":     {deadline, exit, outcome{cutShort: true}},
		"a seed failed":    {seed, exit, outcome{failed: true}},
		"a panic":          {"panic: out of order\n", exit, outcome{failed: true}},
		"a silent exit":    {"", exit, outcome{failed: true}},
		"input + deadline": {found + deadline, exit, outcome{failed: true, input: "testdata/fuzz/FuzzPath/771e938e4458e983"}},
	} {
		if got := judge(c.output, c.err); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestTheSessionGoesOnAfterAFailureAndListsItAtTheEnd(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "a.test")
	script := "#!/bin/sh\ncase $* in *FuzzBad*) cat found; exit 1 ;; *FuzzLate*) cat deadline; exit 1 ;; esac\necho PASS\n"
	dir := t.TempDir()
	for path, content := range map[string]string{binary: script, filepath.Join(dir, "found"): found,
		filepath.Join(dir, "deadline"): deadline} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	p := &fuzzPackage{path: "example/a", dir: dir, targets: []string{"FuzzBad", "FuzzLate", "FuzzGood"}}
	s := session{length: time.Second, cache: t.TempDir(), out: &out, total: 3}
	for _, target := range p.targets {
		output, err := s.run(t.Context(), p, binary, target)
		s.report(p, target, judge(output, err), time.Second, output)
	}
	s.summarize()
	_, summary, _ := strings.Cut(out.String(), "\nFAILED: ")
	for _, want := range []string{
		"example/a FuzzBad\n" + found,
		"testdata/fuzz/FuzzPath/771e938e4458e983; repeat it: go test example/a -run 'FuzzBad/771e938e4458e983'\n",
		"1 targets without a failing input", "\n2 passed, 1 failed\n",
	} {
		if !strings.Contains(summary, want) {
			t.Errorf("%q is missing in: %s", want, out.String())
		}
	}
	if !strings.Contains(out.String(), "ok     3 of 3  example/a FuzzGood") {
		t.Errorf("the last target did not run: %s", out.String())
	}
}

func TestAPackageThatDoesNotCompileFailsEachOfItsTargets(t *testing.T) {
	var out strings.Builder
	p := &fuzzPackage{path: "example.invalid/none", dir: ".", targets: []string{"FuzzA", "FuzzB"}}
	s := session{binaries: t.TempDir(), out: &out, total: 2}
	if err := s.fuzz(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s.summarize()
	if !strings.HasSuffix(out.String(), "\n0 passed, 2 failed\n") {
		t.Errorf("printed %s", out.String())
	}
}

func TestTargetsAreFoundInTheSourcesAndSelectedByAPattern(t *testing.T) {
	t.Chdir("../..")
	packages, err := list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var format *fuzzPackage
	for _, p := range packages {
		if strings.HasSuffix(p.path, "/store/internal/format") {
			format = p
		}
	}
	if len(packages) < 30 || format == nil || len(format.targets) < 4 {
		t.Fatalf("%d packages, %+v", len(packages), format)
	}
	format.keep(format.targets[0])
	if len(format.targets) != 1 {
		t.Errorf("kept %q", format.targets)
	}
}

func TestAPatternThatMatchesNothingIsAnError(t *testing.T) {
	t.Chdir("../..")
	for pattern, want := range map[string]string{"FuzzNothing": `no fuzz target matches "FuzzNothing"`,
		"[": "pattern \"[\""} {
		if _, err := run(t.Context(), pattern, time.Second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
