package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// mostOutput bounds the output that is kept of one test, in bytes.
const mostOutput = 1 << 20

// event is a line of go test -json (go doc test2json), or of the build before it (go help buildjson).
type event struct {
	Action      string
	Package     string
	ImportPath  string // import path of a package that does not compile
	Test        string
	Output      string
	Elapsed     float64 // time in seconds
	FailedBuild string  // the ImportPath that a package needs
}

// goTests follows the output of go test -json.
type goTests struct {
	print func(text string) // the result of a package

	mu       sync.Mutex // guards the fields below
	total    int        // packages with tests; 0 if that is not known
	running  map[string]*goPackage
	builds   map[string]*tail // output of the compiler, by ImportPath
	done     []result
	failures []string // the output of each package that failed
	passed   int      // tests, not counting subtests
	failed   int
}

// goPackage is a package whose tests run.
type goPackage struct {
	began time.Time
	own   tail             // output outside of tests
	tests map[string]*tail // output of tests that have not passed, by name
	order []string         // names of these tests, in the order in which they began
	fails int              // tests that failed, not counting subtests
}

// result is a package whose tests have ended.
type result struct {
	name    string
	seconds float64
}

func newGoTests(print func(text string)) *goTests {
	return &goTests{print: print, running: map[string]*goPackage{}, builds: map[string]*tail{}}
}

// line handles a line of the output of go test -json.
func (g *goTests) line(text string) {
	var e event
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &e) != nil {
		g.print(text) // a message of go or make
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.Package == "" {
		g.build(e)
		return
	}
	p := g.running[e.Package]
	if p == nil {
		p = &goPackage{began: time.Now(), own: tail{most: mostOutput}, tests: map[string]*tail{}}
		g.running[e.Package] = p
	}
	switch {
	case e.Action == "output":
		p.output(e)
	case e.Test != "":
		g.endTest(p, e)
	case e.Action == "pass", e.Action == "fail", e.Action == "skip":
		delete(g.running, e.Package)
		g.endPackage(p, e)
	}
}

// build handles an event of the compiler.
func (g *goTests) build(e event) {
	if e.Action != "build-output" {
		return
	}
	if g.builds[e.ImportPath] == nil {
		g.builds[e.ImportPath] = &tail{most: mostOutput}
	}
	g.builds[e.ImportPath].add(e.Output)
}

func (p *goPackage) output(e event) {
	if e.Test == "" {
		p.own.add(e.Output)
		return
	}
	if p.tests[e.Test] == nil {
		p.tests[e.Test] = &tail{most: mostOutput}
		p.order = append(p.order, e.Test)
	}
	if !strings.HasPrefix(e.Output, "=== ") { // RUN, PAUSE, CONT and NAME
		p.tests[e.Test].add(e.Output)
	}
}

func (g *goTests) endTest(p *goPackage, e event) {
	top := !strings.Contains(e.Test, "/")
	switch e.Action {
	case "pass", "skip":
		delete(p.tests, e.Test)
		if top && e.Action == "pass" {
			g.passed++
		}
	case "fail":
		if top {
			g.failed++
			p.fails++
		}
	}
}

// endPackage prints the line of go test that closes a package, after the output of the tests that failed. It prints
// nothing for a package without tests.
func (g *goTests) endPackage(p *goPackage, e event) {
	closing := ""
	for _, line := range p.own.lines {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") {
			closing = line
		}
	}
	if e.Action == "skip" || closing == "" && e.Action == "pass" {
		return
	}
	g.done = append(g.done, result{e.Package, e.Elapsed})
	if e.Action == "pass" {
		g.print(closing)
		return
	}
	if p.fails == 0 { // the package did not compile, or it ended outside of a test
		g.failed++
	}
	text := p.failure(e.Package, g.builds[e.FailedBuild])
	g.failures = append(g.failures, text)
	g.print(text)
}

// failure returns the output of a package that failed, without that of tests that passed.
func (p *goPackage) failure(name string, build *tail) string {
	var text strings.Builder
	if build != nil {
		text.WriteString(build.String())
	}
	for _, test := range p.order {
		if output := p.tests[test]; output != nil {
			text.WriteString(output.String())
		}
	}
	rest := p.own.String()
	text.WriteString(rest)
	if !strings.Contains(rest, "FAIL\t"+name) {
		fmt.Fprintf(&text, "FAIL\t%s\n", name)
	}
	return text.String()
}

// close ends packages whose end was not reported, because go test itself ended.
func (g *goTests) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(g.running)) {
		g.endPackage(g.running[name], event{Action: "fail", Package: name})
		delete(g.running, name)
	}
}

func (g *goTests) setTotal(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total = n
}

// progress returns how many packages are done, and which run, the oldest first.
func (g *goTests) progress(now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	text := fmt.Sprintf("%d packages done", len(g.done))
	if g.total > 0 {
		text = fmt.Sprintf("%d of %d packages done", len(g.done), g.total)
	}
	if g.failed > 0 {
		text += fmt.Sprintf(", %d tests failed", g.failed)
	}
	names := slices.SortedFunc(maps.Keys(g.running), func(a, b string) int {
		return g.running[a].began.Compare(g.running[b].began)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %s", short(name), clock(now.Sub(g.running[name].began)))
	}
	if len(names) == 0 {
		return text + ", compiling"
	}
	return text + ", now " + strings.Join(names, ", ")
}

// slowest returns the n packages that took longest.
func (g *goTests) slowest(n int) []result {
	g.mu.Lock()
	defer g.mu.Unlock()
	sorted := slices.SortedFunc(slices.Values(g.done), func(a, b result) int {
		if a.seconds != b.seconds {
			return int(b.seconds*1000) - int(a.seconds*1000)
		}
		return strings.Compare(a.name, b.name)
	})
	return sorted[:min(n, len(sorted))]
}

// short returns the path of a package without the name of the module.
func short(name string) string {
	_, path, found := strings.Cut(name, "/")
	if !found {
		return name
	}
	return path
}
