package command

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCommandsInHintsAreQuotedForAShell(t *testing.T) {
	con := &Console{Data: "my data"}
	if got, want := con.CommandLine("attach", "it's; rm"), `mailroom attach --data 'my data' 'it'\''s; rm'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHintsNameAPathOnlyIfAShellNeedsIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mailroom")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, name, want string }{
		{dir, path, "mailroom"},
		{t.TempDir() + string(os.PathListSeparator) + dir, path, "mailroom"},
		{t.TempDir(), path, path},
		{dir, "bin/mailroom", "bin/mailroom"},
		{dir, "mailroom", "mailroom"},
		{dir, "", "mailroom"},
	} {
		t.Setenv("PATH", c.path)
		if got := (&Console{Name: c.name}).Program(); got != c.want {
			t.Errorf("started as %q with the PATH %s: got %s, want %s", c.name, c.path, got, c.want)
		}
	}
}
