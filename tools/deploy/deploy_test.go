// Package deploy checks the files of the folder deploy: units of systemd, files of compose and Kubernetes, and rules of
// Prometheus. It is a module of its own, because their parsers are large.
package deploy

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// folder has the files.
const folder = "../../deploy"

// read returns a file of the folder.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A unit is verified with a program in place of the server's, because systemd looks for it.
func TestTheUnitsAreValid(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("systemd-analyze is not installed: it is in the package systemd")
	}
	said, err := exec.CommandContext(t.Context(), analyze, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	var version int // some flags are there from 250 on
	if _, err := fmt.Sscanf(string(said), "systemd %d", &version); err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, scope := range map[string]string{"mailroom.service": "--system", "user/mailroom.service": "--user"} {
		unit := read(t, filepath.Join("systemd", name))
		if !strings.Contains(unit, "\nExecStart=/usr/bin/mailroom serve") {
			t.Errorf("%s does not start the server of a package", name)
		}
		path := filepath.Join(t.TempDir(), "mailroom.service")
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(unit, "/usr/bin/mailroom", program)), 0o600); err != nil {
			t.Fatal(err)
		}
		run := func(args ...string) (output string) {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), analyze, append(args, path)...)
			cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "SYSTEMD_LOG_LEVEL=warning")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("systemd-analyze %s of %s: %v: %s", args[0], name, err, out)
			}
			return string(out)
		}
		verify := []string{"verify", scope, "--man=no"}
		if version >= 250 {
			verify = append(verify, "--recursive-errors=no")
		}
		if out := run(verify...); strings.Contains(out, path) ||
			strings.Contains(out, "mailroom.service:") {
			t.Errorf("%s: %s", name, out)
		}
		if scope == "--system" && version >= 250 { // the number of its table, times ten
			run("security", "--offline=true", "--threshold=20", "--no-pager")
		}
		// Go's runtime exits with 2 after a crash and after the watchdog's abort, and such a server must start again.
		for line := range strings.Lines(unit) {
			if codes, ok := strings.CutPrefix(line, "RestartPreventExitStatus="); ok && strings.TrimSpace(codes) != "78" {
				t.Errorf("%s does not restart a server that ended with %s, want 78 alone", name, codes)
			}
		}
	}
}
