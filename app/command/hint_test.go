package command

import (
	"path/filepath"
	"strings"
	"testing"

	"mailroom"
)

func TestCommandsInTextsSelectTheServerOfTheCommand(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	con := &Console{Name: "bin/mailroom", Data: "my data"}
	for text, want := range map[string]string{
		"add one with `mailroom notify add`": "add one with `bin/mailroom notify --data 'my data' add`",
		"see `mailroom send --help`":         "see `bin/mailroom send --help`",
		"`mailroom restore FILE`, or `mailroom restore --accept-loss`": "`bin/mailroom restore --data 'my data' FILE`, " +
			"or `bin/mailroom restore --data 'my data' --accept-loss`",
		"repeat `mailroom store copy`": "repeat `bin/mailroom store copy`",
		"`mailroom serve --data x`":    "`bin/mailroom serve --data x`",
		"see `mailroom context`":       "see `bin/mailroom context`",
		"`mailroom`":                   "`bin/mailroom`",
		"mailroom send, `bd list`":     "mailroom send, `bd list`",
	} {
		if got := con.Runnable(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	con.Data, con.Context = "", "work"
	if got, want := con.Runnable("`mailroom tickets`"), "`bin/mailroom tickets --context work`"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheHintOfAServersErrorSelectsTheServer(t *testing.T) {
	var out strings.Builder
	con := &Console{Stderr: &out, Context: "work"}
	con.ReportError(t.Context(), mailroom.Errorf(mailroom.CodeNotFound, "no target: add one with `mailroom notify add`"))
	if got, want := out.String(), "mailroom: no target: add one with `mailroom notify --context work add`\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHintsThatAreReadElsewhereNameTheProgramByItsWholePath(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	t.Chdir(dir)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	con := &Console{Name: "bin/mailroom"}
	con.UseAbsolutePaths()
	got := con.CommandPrefix()
	if got != filepath.Join(real, "bin/mailroom") && got != filepath.Join(dir, "bin/mailroom") {
		t.Errorf("got %s", got)
	}
	con.Name = "mailroom"
	con.UseAbsolutePaths()
	if got := con.CommandPrefix(); got != "mailroom" {
		t.Errorf("got %s", got)
	}
}
