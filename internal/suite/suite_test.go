package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// page is a terminal whose lines a test reads.
type page struct {
	mu     sync.Mutex
	text   strings.Builder
	onLine func(line string) // called with each write
}

func (p *page) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.onLine != nil {
		p.onLine(string(text))
	}
	return p.text.Write(text)
}

func sh(script string) []string { return []string{"sh", "-c", script} }

// play runs steps and returns what was printed.
func play(t *testing.T, steps ...step) (printed string, ok bool) {
	t.Helper()
	p := &page{}
	s, err := newSuite(steps, newScreen(p))
	if err != nil {
		t.Fatal(err)
	}
	ok = s.run(t.Context(), time.Hour)
	s.summarize()
	return p.text.String(), ok
}

func lastLines(text string, n int) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[max(0, len(lines)-n):]
}

func TestTheLastLinesOfTheSuiteStateItsResult(t *testing.T) {
	printed, ok := play(t, step{name: "one", args: sh("echo 12 passed, 0 failed")}, step{name: "two", args: sh("true")})
	last := lastLines(printed, 2)
	if !ok || last[0] != "13 passed, 0 failed" || !strings.HasPrefix(last[1], "ok: make test passed in 0:") {
		t.Errorf("%t, the last lines are %q", ok, last)
	}
	printed, ok = play(t, step{name: "one", args: sh("echo 12 passed, 1 failed; exit 1")},
		step{name: "two", args: sh("exit 3")})
	last = lastLines(printed, 2)
	if ok || last[0] != "12 passed, 2 failed" ||
		!regexp.MustCompile(`^FAILED: make test, after 0:\d\d: one, two$`).MatchString(last[1]) {
		t.Errorf("%t, the last lines are %q", ok, last)
	}
}

func TestTheOutputOfAFailedStepIsRepeatedAtTheEndWithoutTestsThatPassed(t *testing.T) {
	printed, _ := play(t, step{name: "good", args: sh("echo fine")},
		step{name: "bad", args: sh("echo 'ok   chat: fine too'; echo broken >&2; exit 1")})
	_, summary, _ := strings.Cut(printed, "result\n")
	if !strings.Contains(summary, "FAILED: bad: exit status 1\nbroken\n") || strings.Contains(summary, "fine") {
		t.Errorf("the summary is %s", summary)
	}
}

func TestAStepRunsOnlyIfTheStepsItNeedsPassed(t *testing.T) {
	printed, ok := play(t,
		step{name: "build", args: sh("exit 1")},
		step{name: "web", args: sh("echo web runs"), needs: []string{"build"}},
		step{name: "pages", args: sh("echo pages run"), needs: []string{"web"}},
		step{name: "lint", args: sh("echo lint runs"), after: []string{"build", "pages"}})
	if ok || strings.Contains(printed, "| web runs") || strings.Contains(printed, "| pages run") ||
		!strings.Contains(printed, "lint    | lint runs\n") {
		t.Errorf("%t, printed %s", ok, printed)
	}
	if !strings.Contains(printed, "not run: build did not pass") ||
		!strings.Contains(printed, "not run: web did not pass") {
		t.Errorf("the reasons are missing: %s", printed)
	}
	if last := lastLines(printed, 2); last[0] != "1 passed, 1 failed" ||
		!strings.HasSuffix(last[1], ": build, web, pages") {
		t.Errorf("the last lines are %q", last)
	}
}

func TestAStepWaitsOnlyForStepsBeforeIt(t *testing.T) {
	for _, steps := range [][]step{{{name: "a", needs: []string{"b"}}, {name: "b"}}, {{name: "a", after: []string{"a"}}}} {
		if _, err := newSuite(steps, newScreen(&page{})); err == nil ||
			!strings.Contains(err.Error(), "not a step before it") {
			t.Errorf("steps %v: %v", steps, err)
		}
	}
}

func TestParallelStepsPrintWholeLinesWithTheirNames(t *testing.T) {
	const script = `i=0; while [ $i -lt 200 ]; do printf "%s" "$0"; printf "%s" "-$i" >&1; printf "\n"; i=$((i+1)); done`
	printed, _ := play(t, step{name: "one", args: append(sh(script), "first")},
		step{name: "two", args: append(sh(script), "second")})
	for i := range 200 {
		for _, want := range []string{fmt.Sprintf("one     | first-%d\n", i), fmt.Sprintf("two     | second-%d\n", i)} {
			if strings.Count(printed, want) != 1 {
				t.Fatalf("%q is not printed once", want)
			}
		}
	}
}

func TestProgressNamesWhatRunsForHowLongAndWhatFollows(t *testing.T) {
	s, err := newSuite([]step{{name: "tests", tests: true}, {name: "web"}, {name: "lint"}}, newScreen(&page{}))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.tracks[0].state, s.tracks[0].began = stateRunning, now.Add(-65*time.Second)
	s.tracks[1].state, s.tracks[1].began = stateRunning, now.Add(-5*time.Second)
	want := "running: tests 1:05 (0 packages done, compiling); web 0:05; then lint"
	if got := s.progress(now); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	tests := s.tracks[0].tests
	tests.setTotal(89)
	tests.line(`{"Action":"start","Package":"mailroom/engine"}`)
	tests.line(`{"Action":"start","Package":"mailroom/bus"}`)
	tests.line(`{"Action":"output","Package":"mailroom/bus","Output":"ok  \tmailroom/bus\t1.0s\n"}`)
	tests.line(`{"Action":"pass","Package":"mailroom/bus","Elapsed":1.0}`)
	tests.running["mailroom/engine"].began = now.Add(-61 * time.Second)
	want = "running: tests 1:05 (1 of 89 packages done, now engine 1:01); web 0:05; then lint"
	if got := s.progress(now); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgressIsPrintedWhileAStepIsSilent(t *testing.T) {
	release := t.TempDir() + "/release"
	p := &page{onLine: func(line string) {
		if strings.Contains(line, "running: silent") {
			if err := os.WriteFile(release, nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	}}
	s, err := newSuite([]step{{name: "silent", args: append(sh(`until [ -e "$0" ]; do sleep 0.01; done`), release)}},
		newScreen(p))
	if err != nil {
		t.Fatal(err)
	}
	if !s.run(t.Context(), time.Millisecond) {
		t.Errorf("the step failed: %s", p.text.String())
	}
}

func TestAnInterruptEndsTheProcessesOfAStepAndIsInTheSummary(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &page{onLine: func(line string) {
		if strings.Contains(line, "| started") {
			cancel()
		}
	}}
	// The child holds the output of the step open: run returns only because the child has ended.
	script := "sleep 1000 & echo started; wait"
	s, err := newSuite([]step{{name: "long", args: sh(script)}, {name: "next", args: sh("true"), after: []string{"long"}}},
		newScreen(p))
	if err != nil {
		t.Fatal(err)
	}
	ok := s.run(ctx, time.Hour)
	s.summarize()
	printed := p.text.String()
	if ok || !strings.Contains(printed, "FAILED: interrupted") || !strings.Contains(printed, "not run: interrupted") {
		t.Errorf("%t, printed %s", ok, printed)
	}
}

func TestStepsDoNotInheritTheMakeThatStartedThem(t *testing.T) {
	got := environment([]string{"MAKEFLAGS=-j --jobserver-auth=3,4", "GO=go1.27", "MAKELEVEL=1", "PATH=/bin"})
	if want := []string{"GO=go1.27", "PATH=/bin"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEachStepRunsTargetsOfTheMakefile(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	all := steps()
	if _, err := newSuite(all, newScreen(&page{})); err != nil {
		t.Fatal(err)
	}
	for _, st := range all {
		for _, arg := range st.args[1:] {
			if strings.HasPrefix(arg, "-") || strings.Contains(arg, "=") {
				continue
			}
			if !regexp.MustCompile(`(?m)^` + arg + `:`).Match(makefile) {
				t.Errorf("step %s: the Makefile has no target %s", st.name, arg)
			}
		}
	}
}
