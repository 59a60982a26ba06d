package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

const mark = Number + " 96266cb2f1d4aa0011223344556677889900aabb 2026-11-29T14:00:00Z"

func TestOnlyAReleaseHasTheVersionOfTheTree(t *testing.T) {
	clone := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
		{Key: "vcs.modified", Value: "true"},
	}
	for _, test := range []struct {
		name, mark string
		build      *debug.BuildInfo
		want       string
	}{
		{"make release", mark, &debug.BuildInfo{}, Number + " (96266cb2f1d4, 2026-11-29)"},
		{"make release, with what go found in the folder", mark, &debug.BuildInfo{Settings: clone},
			Number + " (96266cb2f1d4, 2026-11-29)"},
		{"make release of a pre-release", Number + "-rc.1 96266cb2f1d4aa00 2026-11-29T14:00:00Z", nil,
			Number + "-rc.1 (96266cb2f1d4, 2026-11-29)"},
		{"go install of a release", "", &debug.BuildInfo{Main: debug.Module{Version: "v" + Number}},
			Number + " (unknown commit)"},
		{"a clone", "", &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026-0123"}, Settings: clone},
			Number + "-dev (0123456789ab, 2026-01-02, modified)"},
		{"an archive of the source", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}},
			Number + "-dev (unknown commit)"},
		{"no build information", "", nil, Number + "-dev (unknown commit)"},
	} {
		if got := read(test.mark, test.build).String(); !strings.HasPrefix(got, test.want+" go") {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// The version is a number of Semantic Versioning, because packages, tags and file names are made of it.
func TestTheNumberIsASemanticVersion(t *testing.T) {
	if !regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`).MatchString(Number) {
		t.Errorf("%q is no version", Number)
	}
}

// The name of the variable is a string in the command line of the linker, which ignores names that it does not find.
func TestTheLinkerMarksARelease(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "bd")
	path, err := exec.CommandContext(t.Context(), "go", "list", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program,
		"-ldflags=-s -w -X '"+strings.TrimSpace(string(path))+".built="+mark+"'", "../../cmd/bd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := exec.CommandContext(t.Context(), program, "version").Output()
	if want := "bd version " + Number + "\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
