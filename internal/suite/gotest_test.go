package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeModule writes a module with these files.
func writeModule(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example\n\ngo 1.26\n"
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The output of the real go test: packages that pass, fail, do not compile, panic and exit.
func TestResultsOfGoTestArePrintedAndFailuresAreRepeated(t *testing.T) {
	dir := writeModule(t, map[string]string{
		"good/good_test.go": "package good\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Log(\"quiet\"); t.Run(\"sub\", func(*testing.T) {}) }\n\nfunc TestB(*testing.T) {}\n",
		"bad/bad_test.go": "package bad\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) { t.Log(\"quiet\") }\n\n" +
			"func TestBad(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(\"wrong answer\") }) }\n",
		"broken/broken_test.go": "package broken\n\nimport \"testing\"\n\nfunc TestC(*testing.T) { undefinedName() }\n",
		"panics/panics_test.go": "package panics\n\nimport \"testing\"\n\nfunc TestPanics(*testing.T) { panic(\"out of order\") }\n",
		"exits/exits_test.go": "package exits\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n)\n\n" +
			"func TestMain(m *testing.M) { m.Run(); fmt.Println(\"a goroutine leaked\"); os.Exit(1) }\n\nfunc TestD(*testing.T) {}\n",
		"none/none.go": "package none\n",
	})
	printed, ok := play(t, step{name: "tests", tests: true, args: []string{"go", "-C", dir, "test", "-json", "./..."}})
	results, summary, _ := strings.Cut(printed, "\nstep ")
	if ok {
		t.Error("passed")
	}
	if !strings.Contains(results, "\nok  \texample/good\t") || strings.Contains(printed, "quiet") ||
		strings.Contains(printed, "=== RUN") {
		t.Errorf("printed %s", printed)
	}
	for _, want := range []string{
		"--- FAIL: TestBad/sub", "wrong answer", "FAIL\texample/bad\t",
		"undefined: undefinedName", "FAIL\texample/broken [build failed]",
		"panic: out of order", "FAIL\texample/panics\t",
		"a goroutine leaked", "FAIL\texample/exits\t",
	} {
		if strings.Count(results, want) != 1 || strings.Count(summary, want) != 1 {
			t.Errorf("%q is printed %d times at once and %d times in the summary, want once each", want,
				strings.Count(results, want), strings.Count(summary, want))
		}
	}
	// TestA, TestB, TestGood and TestD passed; TestBad, TestPanics and two packages failed.
	if !strings.Contains(summary, "\n4 passed, 4 failed\n") {
		t.Errorf("the summary is %s", summary)
	}
}

func TestAPackageWhoseEndIsNotReportedFailed(t *testing.T) {
	printed, ok := play(t, step{name: "tests", tests: true, args: sh(`
		printf '%s\n' '{"Action":"start","Package":"example/lost"}'
		printf '%s\n' '{"Action":"run","Package":"example/lost","Test":"TestA"}'
		printf '%s\n' '{"Action":"output","Package":"example/lost","Test":"TestA","Output":"last words\n"}'
		exit 1`)})
	if ok || !strings.Contains(printed, "last words\nFAIL\texample/lost\n") ||
		!strings.Contains(printed, "\n0 passed, 1 failed\n") {
		t.Errorf("%t, printed %s", ok, printed)
	}
}

func TestAnErrorOfGoItselfIsInTheSummary(t *testing.T) {
	printed, ok := play(t, step{name: "tests", tests: true, args: sh("echo go: no such module >&2; exit 1")})
	if ok || !strings.Contains(printed, "FAILED: tests: exit status 1\ngo: no such module\n") {
		t.Errorf("%t, printed %s", ok, printed)
	}
}

func TestTheSlowestPackagesAreListedFirst(t *testing.T) {
	g := newGoTests(func(string) {})
	g.done = []result{{"m/a", 1}, {"m/b", 30.5}, {"m/c", 2}}
	if got, want := slowLine(g), "\nslowest packages: b 30s, c 2s, a 1s\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKeptOutputIsBounded(t *testing.T) {
	kept := tail{most: 100}
	for range 1000 {
		kept.add("0123456789\n")
	}
	kept.add("the end")
	text := kept.String()
	if len(text) > 200 || !strings.HasPrefix(text, "… (earlier lines are left out)\n") ||
		!strings.HasSuffix(text, "the end\n") {
		t.Errorf("kept %q", text)
	}
}
