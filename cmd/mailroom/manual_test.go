package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/app/manual"
)

// TestTheManualDescribesEachCommand writes the manual of this program, whose every link is followed by the tests of
// app/manual, and looks for each command.
func TestTheManualDescribesEachCommand(t *testing.T) {
	root := rootCommand(&command.Console{Env: func(string) string { return "" }})
	m, err := manual.New(manual.FromCode(root))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := m.Write(dir); err != nil {
		t.Fatal(err)
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
	look(root)
	if commands < 60 {
		t.Errorf("%d commands", commands)
	}
}
