//go:build realagents

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// endDaemonOfCodex ends the daemon that a terminal of codex starts, which outlives it, when the test ends. The daemon
// has a second process that looks for a newer codex each hour and that version 0.171.0 does not end with the first one,
// so the settings of the daemon leave it out.
func endDaemonOfCodex(t *testing.T) {
	t.Helper()
	settings := filepath.Join(os.Getenv("CODEX_HOME"), "app-server-daemon", "settings.json")
	err := os.MkdirAll(filepath.Dir(settings), 0o700)
	if err = errors.Join(err, os.WriteFile(settings, []byte(`{"remoteControlEnabled": false,
"updater": {"autoUpdateEnabled": false, "updateIntervalMinutes": 60}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("codex", "app-server", "daemon", "stop").CombinedOutput(); err != nil {
			t.Errorf("stop the daemon of codex: %v: %s", err, out)
		}
		left := daemonsOfCodex(t)
		for late := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(late); left = daemonsOfCodex(t) {
			<-time.After(10 * time.Millisecond) // the end of a foreign process cannot be awaited
		}
		for pid, command := range left {
			t.Errorf("codex left the process %d: %s", pid, command)
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may have ended since
			}
		}
	})
}

// daemonsOfCodex returns the commands of the daemon's processes of this test, by their ids.
func daemonsOfCodex(t *testing.T) map[int]string {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]string{}
	for _, file := range found {
		env, err := os.ReadFile(file) // an error: the process has just ended
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), "CODEX_HOME="+os.Getenv("CODEX_HOME")) {
			continue
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		words := strings.ReplaceAll(string(command), "\x00", " ")
		if pid, bad := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && bad == nil &&
			strings.Contains(words, " app-server ") {
			all[pid] = words
		}
	}
	return all
}
