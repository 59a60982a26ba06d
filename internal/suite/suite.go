package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// state is how far a step has come.
type state int

const (
	stateWaiting state = iota
	stateRunning
	statePassed
	stateFailed
	stateNotRun    // a step that it needs failed, or the suite was interrupted
	stateUnchanged // it passed before, and nothing that it reads has changed since
)

// good reports whether the step passed, now or before.
func (s state) good() bool { return s == statePassed || s == stateUnchanged }

// track is a step with its state and result.
type track struct {
	step
	ended chan struct{}
	tests *goTests // results of the tests; nil for a step that is not go test

	// Guarded by the mutex of the suite.
	state  state
	began  time.Time
	took   time.Duration
	why    string // why it failed or did not run
	recent tail   // last lines of the output, without the lines of tests that passed
	passed int    // tests that it counted
	failed int
}

// suite is one execution of all steps.
type suite struct {
	tree   string // its folder
	screen *screen
	tracks []*track

	mu sync.Mutex // guards the state of the tracks
}

// newSuite returns a suite. It checks that each step is listed after the steps that it waits for, so that no step
// waits forever.
func newSuite(steps []step, screen *screen) (*suite, error) {
	s := &suite{tree: ".", screen: screen}
	for _, st := range steps {
		for _, other := range append(append([]string{}, st.needs...), st.after...) {
			if s.track(other) == nil {
				return nil, fmt.Errorf("step %s waits for %q, which is not a step before it", st.name, other)
			}
		}
		t := &track{step: st, ended: make(chan struct{}), recent: tail{most: 64 << 10}}
		if st.tests {
			t.tests = newGoTests(screen.print)
		}
		s.tracks = append(s.tracks, t)
	}
	return s, nil
}

func (s *suite) track(name string) *track {
	for _, t := range s.tracks {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (s *suite) names() string {
	var names []string
	for _, t := range s.tracks {
		names = append(names, t.name)
	}
	return strings.Join(names, ", ")
}

// run runs each step after the steps that it waits for have ended, and reports whether all passed. It prints progress
// at the given interval.
func (s *suite) run(ctx context.Context, every time.Duration) (ok bool) {
	var steps sync.WaitGroup
	for _, t := range s.tracks {
		steps.Go(func() { s.runStep(ctx, t) })
	}
	over, reporter := make(chan struct{}), sync.WaitGroup{}
	reporter.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				s.screen.say("%s", s.progress(time.Now()))
			}
		}
	})
	steps.Wait()
	close(over)
	reporter.Wait()
	for _, t := range s.tracks {
		if !t.state.good() {
			return false
		}
	}
	return true
}

// runStep waits for the steps that t needs, and then runs it.
func (s *suite) runStep(ctx context.Context, t *track) {
	defer close(t.ended)
	for _, name := range append(append([]string{}, t.needs...), t.after...) {
		<-s.track(name).ended
	}
	if why := s.obstacle(ctx, t); why != "" {
		s.end(t, stateNotRun, why)
		return
	}
	s.mu.Lock()
	t.state, t.began = stateRunning, time.Now()
	s.mu.Unlock()
	reads, since := s.compare(ctx, t)
	if since != "" {
		s.end(t, stateUnchanged, since)
		return
	}
	s.screen.say("%s begins", t.name)
	err := s.execute(ctx, t)
	if err == nil && reads != nil {
		s.record(ctx, t, reads)
	}
	switch {
	case ctx.Err() != nil:
		s.end(t, stateFailed, "interrupted")
	case err != nil:
		s.end(t, stateFailed, err.Error())
	default:
		s.end(t, statePassed, "")
	}
}

// compare returns the stamp of t, and when t passed with the same stamp; "" if it must run. Then it forgets the last
// pass, so that a step that fails is run again even if what it reads is changed back. Without a stamp, t always runs.
func (s *suite) compare(ctx context.Context, t *track) (now stamp, since string) {
	if t.reads == nil {
		return nil, ""
	}
	now, err := takeStamp(ctx, s.tree, t.step)
	if err != nil {
		s.screen.say("%s always runs here: %v", t.name, err)
		return nil, ""
	}
	file := stampFile(s.tree, t.name)
	then, when, err := readStamp(file)
	changed := now.difference(then)
	switch {
	case err != nil:
		s.screen.say("%s runs again: %v", t.name, err)
	case then != nil && changed == "":
		return now, when
	case then != nil:
		s.screen.say("%s runs again: %s has changed since it passed", t.name, changed)
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.screen.say("%s always runs here: %v", t.name, err)
		return nil, ""
	}
	return now, ""
}

// record keeps the stamp of t, which has passed, unless something that it reads has changed in its time.
func (s *suite) record(ctx context.Context, t *track, began stamp) {
	now, err := takeStamp(ctx, s.tree, t.step)
	if err == nil {
		if changed := now.difference(began); changed != "" {
			err = fmt.Errorf("%s changed while it ran", changed)
		}
	}
	if err == nil {
		err = now.write(stampFile(s.tree, t.name))
	}
	if err != nil {
		s.screen.say("%s will run again: %v", t.name, err)
	}
}

// obstacle returns why t cannot run, or "" if it can.
func (s *suite) obstacle(ctx context.Context, t *track) string {
	if ctx.Err() != nil {
		return "interrupted"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range t.needs {
		if !s.track(name).state.good() {
			return name + " did not pass"
		}
	}
	return ""
}

func (s *suite) execute(ctx context.Context, t *track) error {
	line := func(text string) { s.line(t, text) }
	if t.tests == nil {
		return runCommand(ctx, t.args, line, line)
	}
	defer t.tests.close()
	var counting sync.WaitGroup
	if t.list != "" {
		counting.Go(func() { t.tests.setTotal(countPackages(ctx, t.list)) })
	}
	defer counting.Wait()
	return runCommand(ctx, t.args, t.tests.line, line)
}

// countPackages returns how many packages have tests, or 0 if go cannot list them; the tests then report why.
func countPackages(ctx context.Context, pattern string) int {
	list := exec.CommandContext(ctx, "go", "list", "-e", "-f",
		"{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", pattern)
	out, err := list.Output()
	if err != nil {
		return 0
	}
	return len(strings.Fields(string(out)))
}

// closing matches the last line of a step that counts its tests.
var closing = regexp.MustCompile(`^(\d+) passed, (\d+) failed$`)

// counted returns the numbers of a closing line.
func counted(text string) (passed, failed int, ok bool) {
	found := closing.FindStringSubmatch(text)
	if found == nil {
		return 0, 0, false
	}
	passed, _ = strconv.Atoi(found[1]) // digits
	failed, _ = strconv.Atoi(found[2])
	return passed, failed, true
}

// line handles a line of the output of t.
func (s *suite) line(t *track, text string) {
	s.mu.Lock()
	if !strings.HasPrefix(text, "ok  ") { // a test that passed
		t.recent.add(text)
	}
	if passed, failed, ok := counted(text); ok {
		t.passed += passed
		t.failed += failed
	}
	s.mu.Unlock()
	s.screen.print(fmt.Sprintf("%-7s | %s", t.name, text))
}

func (s *suite) end(t *track, to state, why string) {
	s.mu.Lock()
	t.state, t.why = to, why
	if !t.began.IsZero() {
		t.took = time.Since(t.began)
	}
	took := t.took
	s.mu.Unlock()
	switch to {
	case statePassed:
		s.screen.say("%s passed in %s", t.name, clock(took))
	case stateFailed:
		s.screen.say("%s FAILED after %s: %s", t.name, clock(took), why)
	case stateUnchanged:
		s.screen.say("%s is not run again: nothing that it reads has changed since it passed at %s", t.name, why)
	default:
		s.screen.say("%s does not run: %s", t.name, why)
	}
}
