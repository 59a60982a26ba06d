package bd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCountsHaveSingularAndPluralNouns(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) (out, talk string) {
		t.Helper()
		code, out, talk := invoke(t, dir, args...)
		if code != exitDone {
			t.Fatalf("bd %v: exit %d, %s", args, code, talk)
		}
		return out, talk
	}
	run("init", "--prefix", "x")
	file := filepath.Join(dir, ".beads", "issues.jsonl")
	run("create", "not counted") // a file without a readable line is not written
	run("create", "nor this")
	for n, want := range []struct{ issues, lines string }{{"2 issues", "1 invalid line"}, {"3 issues", "2 invalid lines"},
		{"4 issues", ""}} {
		if n == 0 {
			if out, _ := run("doctor"); !strings.Contains(out, want.issues+", no problems") {
				t.Errorf("with %s: %q", want.issues, out)
			}
		}
		if out, _ := run("rename-prefix", "x-", "--dry-run"); !strings.Contains(out, " "+want.issues+" ") {
			t.Errorf("with %d issues: %q", n, out)
		}
		if want.lines != "" {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, append(text, "not JSON\n"...), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, talk := run("list"); !strings.Contains(talk, "left in place: "+want.lines) {
				t.Errorf("%s are reported as %q", want.lines, talk)
			}
		}
		if _, talk := run("create", "one more"); want.lines != "" && !strings.Contains(talk, "left in place: "+want.lines) {
			t.Errorf("%s are reported as %q", want.lines, talk)
		}
	}
}

func TestHelpShowsNoEmptyDefault(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"list", "--help"}, {"create", "--help"}} {
		if _, out, _ := invoke(t, t.TempDir(), args...); !strings.Contains(out, "--lock-timeout") ||
			strings.Contains(out, "(default )") {
			t.Errorf("bd %v: %s", args, out)
		}
	}
}
