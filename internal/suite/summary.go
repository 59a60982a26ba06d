package main

import (
	"fmt"
	"strings"
	"time"
)

// progress returns which steps run and for how long, and which steps wait.
func (s *suite) progress(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var running, waiting []string
	for _, t := range s.tracks {
		switch t.state {
		case stateRunning:
			text := fmt.Sprintf("%s %s", t.name, clock(now.Sub(t.began)))
			if t.tests != nil {
				text += " (" + t.tests.progress(now) + ")"
			}
			running = append(running, text)
		case stateWaiting:
			waiting = append(waiting, t.name)
		}
	}
	text := "running: " + strings.Join(running, "; ")
	if len(waiting) > 0 {
		text += "; then " + strings.Join(waiting, ", ")
	}
	return text
}

// slowPackages is how many of the slowest packages the summary lists.
const slowPackages = 8

// summarize prints the time of each step, the slowest packages, everything that failed, the number of tests, and the
// result, which is the last line.
func (s *suite) summarize() {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%-10s %6s  %s\n", "step", "time", "result")
	for _, t := range s.tracks {
		fmt.Fprintf(&text, "%-10s %6s  %s\n", t.name, clock(t.took), t.result())
	}
	passed, failed := 0, 0
	var failures, bad []string
	for _, t := range s.tracks {
		p, f := t.count()
		passed, failed = passed+p, failed+f
		if !t.state.good() {
			bad = append(bad, t.name)
		}
		failures = append(failures, t.failures()...)
		if t.tests != nil {
			text.WriteString(slowLine(t.tests))
		}
	}
	for _, failure := range failures {
		text.WriteString("\n" + failure)
	}
	fmt.Fprintf(&text, "\n%d passed, %d failed\n", passed, failed)
	if total := clock(time.Since(s.screen.began)); len(bad) == 0 {
		fmt.Fprintf(&text, "ok: make test passed in %s\n", total)
	} else {
		fmt.Fprintf(&text, "FAILED: make test, after %s: %s\n", total, strings.Join(bad, ", "))
	}
	s.screen.print(text.String())
}

func slowLine(tests *goTests) string {
	var names []string
	for _, r := range tests.slowest(slowPackages) {
		names = append(names, fmt.Sprintf("%s %.0fs", short(r.name), r.seconds))
	}
	if len(names) == 0 {
		return ""
	}
	return "\nslowest packages: " + strings.Join(names, ", ") + "\n"
}

func (t *track) result() string {
	switch t.state {
	case statePassed:
		return "ok"
	case stateUnchanged:
		return "unchanged since it passed at " + t.why
	case stateNotRun:
		return "not run: " + t.why
	default:
		return "FAILED: " + t.why
	}
}

// count returns how many tests of a step passed and failed. A step that does not count tests counts as one test.
func (t *track) count() (passed, failed int) {
	passed, failed = t.passed, t.failed
	if t.tests != nil {
		passed, failed = t.tests.passed, t.tests.failed
	}
	switch {
	case t.state == statePassed && passed == 0:
		return 1, failed
	case t.state == stateFailed && failed == 0:
		return passed, 1
	}
	return passed, failed
}

// failures returns the output of what failed in t, each under a heading.
func (t *track) failures() []string {
	if t.state != stateFailed {
		return nil
	}
	if t.tests == nil || len(t.tests.failures) == 0 {
		return []string{fmt.Sprintf("FAILED: %s: %s\n%s", t.name, t.why, t.recent.String())}
	}
	var texts []string
	for _, failure := range t.tests.failures {
		texts = append(texts, fmt.Sprintf("FAILED: %s\n%s", t.name, failure))
	}
	return texts
}
