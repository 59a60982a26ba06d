package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tree is a folder with files of every kind that a stamp has.
type tree struct{ dir string }

func newTree(t *testing.T) tree {
	t.Helper()
	w := tree{t.TempDir()}
	for file, content := range map[string]string{
		".gitignore": "/bin/\nnode_modules/\n/scratch\n", "web/page.js": "old", "web/old.js": "old", "main.go": "old",
		"web/package-lock.json": "{}", "web/node_modules/.package-lock.json": "{}", "web/node_modules/.ready": "",
		"bin/mailroom": "old", "scratch": "old",
	} {
		w.write(t, file, content)
	}
	if out, err := exec.Command("git", "-C", w.dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	return w
}

func (w tree) write(t *testing.T, file, content string) {
	t.Helper()
	name := filepath.Join(w.dir, file)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// play runs steps in the tree and returns what was printed.
func (w tree) play(t *testing.T, steps ...step) (printed string, ok bool) {
	t.Helper()
	p := &page{}
	s, err := newSuite(steps, newScreen(p))
	if err != nil {
		t.Fatal(err)
	}
	s.tree = w.dir
	ok = s.run(t.Context(), time.Hour)
	s.summarize()
	return p.text.String(), ok
}

// web is a step that reads all but Go code.
func web(script string) step { return step{name: "web", args: sh(script), reads: withoutGo} }

func TestAStepIsNotRunAgainWhileNothingThatItReadsHasChanged(t *testing.T) {
	w := newTree(t)
	if printed, ok := w.play(t, web("echo it runs")); !ok || !strings.Contains(printed, "| it runs\n") {
		t.Fatalf("%t, printed %s", ok, printed)
	}
	w.write(t, "main.go", "new")
	w.write(t, "scratch", "new")
	t.Setenv("SHLVL", "9")
	printed, ok := w.play(t, web("echo it runs"),
		step{name: "next", args: sh("echo next runs"), needs: []string{"web"}, after: []string{"web"}})
	if !ok || strings.Contains(printed, "| it runs") || !strings.Contains(printed, "| next runs\n") {
		t.Errorf("%t, printed %s", ok, printed)
	}
	row := regexp.MustCompile(`(?m)^web +\d:\d\d  unchanged since it passed at \d{4}-\d\d-\d\d \d\d:\d\d$`)
	if !row.MatchString(printed) {
		t.Errorf("the summary is %s", printed)
	}
	if last := lastLines(printed, 2); last[0] != "1 passed, 0 failed" { // tests that did not run did not pass
		t.Errorf("the last lines are %q", last)
	}
}

func TestAStepRunsAgainAfterAnyChangeOfWhatItReads(t *testing.T) {
	remove := func(file string) func(*testing.T, tree) {
		return func(t *testing.T, w tree) {
			if err := os.Remove(filepath.Join(w.dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(file string) func(*testing.T, tree) {
		return func(t *testing.T, w tree) { w.write(t, file, "new") }
	}
	for name, change := range map[string]func(*testing.T, tree){
		"web/page.js":                         write("web/page.js"),
		"web/new.js":                          write("web/new.js"),
		"web/old.js":                          remove("web/old.js"),
		"bin/mailroom":                        write("bin/mailroom"),
		"bin/fakes":                           write("bin/fakes"),
		"web/node_modules/.package-lock.json": write("web/node_modules/.package-lock.json"),
		"web/node_modules":                    remove("web/node_modules/.ready"),
		"web/package-lock.json":               func(t *testing.T, w tree) { chmod(t, w.dir+"/web/package-lock.json") },
		".gitignore": func(t *testing.T, w tree) {
			w.write(t, ".gitignore", "/bin/\nnode_modules/\n")
		},
		"the variable MAILROOM_URL": func(t *testing.T, _ tree) { t.Setenv("MAILROOM_URL", "http://example.test") },
		"the output of node --version": func(t *testing.T, w tree) {
			w.write(t, "bin/node", "#!/bin/sh\necho v99.0.0\n")
			t.Setenv("PATH", filepath.Join(w.dir, "bin")+":"+os.Getenv("PATH"))
			chmod(t, filepath.Join(w.dir, "bin/node"))
		},
		"the program chromium": func(t *testing.T, w tree) {
			w.write(t, "bin/chromium", "#!/bin/sh\n")
			t.Setenv("PATH", filepath.Join(w.dir, "bin")+":"+os.Getenv("PATH"))
			chmod(t, filepath.Join(w.dir, "bin/chromium"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTree(t)
			w.play(t, web("true"))
			change(t, w)
			want := "web runs again: " + name + " has changed since it passed"
			if printed, _ := w.play(t, web("true")); !strings.Contains(printed, want) {
				t.Errorf("printed %s", printed)
			}
		})
	}
	w := newTree(t)
	w.play(t, web("true"))
	printed, _ := w.play(t, web("echo another"))
	if !strings.Contains(printed, "web runs again: the command has changed since it passed") {
		t.Errorf("printed %s", printed)
	}
	every := step{name: "lint", args: sh("true"), reads: everyFile}
	w.play(t, every)
	w.write(t, "main.go", "new")
	if printed, _ := w.play(t, every); !strings.Contains(printed, "lint runs again: main.go has changed") {
		t.Errorf("printed %s", printed)
	}
}

func chmod(t *testing.T, file string) {
	t.Helper()
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestAStepThatFailedRunsAgainEvenIfItPassedBefore(t *testing.T) {
	w := newTree(t)
	w.play(t, web("test $(cat "+w.dir+"/web/page.js) = old"))
	w.write(t, "web/page.js", "new")
	if _, ok := w.play(t, web("test $(cat "+w.dir+"/web/page.js) = old")); ok {
		t.Error("passed")
	}
	w.write(t, "web/page.js", "old")
	printed, ok := w.play(t, web("test $(cat "+w.dir+"/web/page.js) = old"))
	if !ok || !strings.Contains(printed, "web passed in") {
		t.Errorf("%t, printed %s", ok, printed)
	}
}

func TestAStepWhoseFilesChangeWhileItRunsIsNotRecorded(t *testing.T) {
	w := newTree(t)
	edits := web("echo >>" + w.dir + "/web/page.js")
	for range 2 {
		printed, ok := w.play(t, edits)
		if !ok || !strings.Contains(printed, "web will run again: web/page.js changed while it ran") {
			t.Errorf("%t, printed %s", ok, printed)
		}
	}
}

func TestAStepWithoutAStampAlwaysRuns(t *testing.T) {
	w := newTree(t)
	for range 2 {
		printed, ok := w.play(t, step{name: "build", args: sh("echo it runs")})
		if !ok || !strings.Contains(printed, "| it runs\n") {
			t.Errorf("%t, printed %s", ok, printed)
		}
	}
	if err := os.RemoveAll(filepath.Join(w.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		printed, ok := w.play(t, web("echo it runs"))
		if !ok || !strings.Contains(printed, "web always runs here: git ls-files") ||
			!strings.Contains(printed, "| it runs\n") {
			t.Errorf("%t, printed %s", ok, printed)
		}
	}
	w = newTree(t)
	w.play(t, web("true"))
	w.write(t, "bin/passed/web.json", "half of")
	if printed, ok := w.play(t, web("true")); !ok || !strings.Contains(printed, "web passed in") {
		t.Errorf("%t, printed %s", ok, printed)
	}
}

// A stamp has the programs in bin that tests in JavaScript name, and the system's programs that make looks for.
func TestAStampHasThePrograms(t *testing.T) {
	named := regexp.MustCompile(`\.\./bin/(\w+)'`)
	found := 0
	for _, pattern := range []string{"web/test", "clients/js/test", "protocol/mcp/node", "server/openapi/node"} {
		files, err := filepath.Glob("../../" + pattern + "/*.js")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range named.FindAllStringSubmatch(string(content), -1) {
				found++
				if !has(builtPrograms, "bin/"+match[1]) {
					t.Errorf("%s runs bin/%s, which no stamp has", file, match[1])
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("the tests name %d programs in bin", found)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	checks := regexp.MustCompile(`(?m)^programs: .*\n\t@\.ci/programs (.*)$`).FindSubmatch(makefile)
	if checks == nil {
		t.Fatal("the Makefile does not check for programs")
	}
	names := map[string]string{"compiler": "cc", "postgres": "initdb", "go": "",
		"headless-shell": "chromium-headless-shell"} // go env says its version
	for name := range strings.FieldsSeq(string(checks[1])) {
		if program, known := names[name]; known {
			name = program
		}
		if name != "" && !has(systemPrograms, name) {
			t.Errorf("make checks for %s, which no stamp has", name)
		}
	}
}
