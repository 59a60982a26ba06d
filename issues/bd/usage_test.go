package bd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// groups are all commands that have commands, as they are called.
func groups(cmd *cobra.Command) (found [][]string) {
	if cmd.HasSubCommands() {
		found = append(found, strings.Fields(cmd.CommandPath())[1:])
	}
	for _, sub := range cmd.Commands() {
		found = append(found, groups(sub)...)
	}
	return found
}

func TestUnknownSubcommandsAreRefused(t *testing.T) {
	dir := t.TempDir()
	if code, _, talk := invoke(t, dir, "init"); code != 0 {
		t.Fatal(talk)
	}
	all := groups((&Main{Env: func(string) string { return "" }}).Command())
	if len(all) < 4 {
		t.Fatalf("only %v are groups", all)
	}
	for _, group := range append(all, []string{"help"}, []string{"help", "dep"}) {
		for _, word := range []string{"frob", "lst"} {
			if strings.Join(group, " ") == "comments" {
				continue // the word is an issue's id
			}
			args := append(append([]string{}, group...), word)
			code, out, talk := invoke(t, dir, args...)
			if code != exitUsage || out != "" || !strings.HasPrefix(talk, "Error: unknown command") ||
				strings.Count(talk, "\n") != 1 {
				t.Errorf("bd %v: exit %d, stdout %q, stderr %q", args, code, out, talk)
			}
			code, out, _ = invoke(t, dir, append(args, "--json")...)
			var said struct{ Error, Hint string }
			if err := json.Unmarshal([]byte(out), &said); code != exitUsage || err != nil ||
				!strings.HasPrefix(said.Error, "unknown command") || said.Hint == "" {
				t.Errorf("bd %v --json: exit %d, %v, %s", args, code, err, out)
			}
		}
	}
	for _, args := range [][]string{{"dep"}, {"label", "--json"}, {"--json"}, {"list", "x"}, {"list", "--frob"},
		{"show"}} {
		if code, out, talk := invoke(t, dir, args...); code != exitUsage || strings.Contains(out, "Usage:") {
			t.Errorf("bd %v: exit %d, stdout %q, stderr %q", args, code, out, talk)
		}
	}
	for _, args := range [][]string{{}, {"--help"}, {"dep", "--help"}, {"help", "dep", "add"}} {
		if code, out, talk := invoke(t, dir, args...); code != exitDone || !strings.Contains(out, "Usage:") {
			t.Errorf("bd %v: exit %d, stdout %q, stderr %q", args, code, out, talk)
		}
	}
}
