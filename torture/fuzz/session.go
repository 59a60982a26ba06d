package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// session is one execution of all selected targets.
type session struct {
	length   time.Duration
	binaries string // a folder for test binaries
	cache    string // a folder for interesting inputs
	out      io.Writer

	total, done int
	failures    []failure
	cutShort    int // targets that the coordinator's deadline ended
}

// failure is a target that failed.
type failure struct {
	pkg    *fuzzPackage
	target string
	output string
	input  string // the file with the failing input, in the folder of the package; "" if there is none
}

// patience is how much longer than its time a target may take, because it first runs its seeds and minimizes a
// failing input.
const patience = 10 * time.Minute

// fuzz compiles a package and runs its targets.
func (s *session) fuzz(ctx context.Context, p *fuzzPackage) error {
	if len(p.targets) == 0 {
		return nil
	}
	fmt.Fprintf(s.out, "     compiling %s\n", p.path)
	binary := filepath.Join(s.binaries, strings.ReplaceAll(p.path, "/", "-")+".test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-fuzz", ".", "-o", binary, p.path)
	if out, err := build.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, target := range p.targets {
			s.report(p, target, outcome{failed: true}, 0, fmt.Sprintf("%s\n%v\n", out, err))
		}
		return nil
	}
	for _, target := range p.targets {
		begin := time.Now()
		output, err := s.run(ctx, p, binary, target)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.report(p, target, judge(output, err), time.Since(begin), output)
	}
	return nil
}

// run runs a target in the folder of its package, as go test does.
func (s *session) run(ctx context.Context, p *fuzzPackage, binary, target string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.length+patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.paniconexit0", "-test.run=^$", "-test.fuzz=^"+target+"$",
		"-test.fuzztime="+s.length.String(), "-test.fuzzminimizetime=1s", "-test.fuzzcachedir="+
			filepath.Join(s.cache, p.path))
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Sprintf("%s\nthe target did not end within %s\n", out, s.length+patience), ctx.Err()
	}
	return string(out), err
}

func (s *session) report(p *fuzzPackage, target string, o outcome, took time.Duration, output string) {
	s.done++
	mark, note := "ok  ", ""
	switch {
	case o.failed:
		mark = "FAIL"
		s.failures = append(s.failures, failure{p, target, output, o.input})
		note = "\n" + output
	case o.cutShort:
		s.cutShort++
		note = "  (ended by the deadline of its coordinator)"
	}
	fmt.Fprintf(s.out, "%s %3d of %d  %s %s  %.1fs%s\n", mark, s.done, s.total, p.path, target, took.Seconds(), note)
}

// summarize prints the failures, and how to repeat them.
func (s *session) summarize() {
	for _, f := range s.failures {
		fmt.Fprintf(s.out, "\nFAILED: %s %s\n%s", f.pkg.path, f.target, f.output)
		if f.input != "" {
			fmt.Fprintf(s.out, "the input is in %s; repeat it: go test %s -run '%s/%s'\n",
				filepath.Join(f.pkg.dir, f.input), f.pkg.path, f.target, filepath.Base(f.input))
		}
	}
	if s.cutShort > 0 {
		fmt.Fprintf(s.out,
			"\n%d targets without a failing input were ended by the deadline of their coordinator (golang/go#75804)\n",
			s.cutShort)
	}
	fmt.Fprintf(s.out, "%d passed, %d failed\n", s.total-len(s.failures), len(s.failures))
}
