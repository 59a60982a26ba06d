package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"mailroom/app/command"
)

// TestTheManualDescribesEachCommand writes the manual of this program, whose every link is followed by the tests of
// app/manual, and looks for each command.
func TestTheManualDescribesEachCommand(t *testing.T) {
	none := func(string) string { return "" }
	dir := filepath.Join(t.TempDir(), "site")
	var out, failed strings.Builder
	m := Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &failed, Env: none}
	if code := m.Run(t.Context(), []string{"docs", dir}); code != command.ExitDone ||
		!regexp.MustCompile(`site: \d+ pages, \d+ files with 4\.\d MiB, in \S+s\n$`).MatchString(out.String()) {
		t.Fatalf("exit code %d: %s%s", code, &out, &failed)
	}
	page, err := os.ReadFile(filepath.Join(dir, "reference", "commands.html"))
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		for _, inner := range cmd.Commands() {
			if inner.Hidden {
				continue
			}
			commands++
			if !strings.Contains(string(page), ` id="`+strings.ReplaceAll(inner.CommandPath(), " ", "-")+`"`) {
				t.Errorf("%s is not described", inner.CommandPath())
			}
			look(inner)
		}
	}
	look(rootCommand(&command.Console{Env: none}))
	if commands < 60 {
		t.Errorf("%d commands", commands)
	}
}
