package console

import "testing"

func TestHintsCanBeTyped(t *testing.T) {
	con := &Console{Data: "my data"}
	if got, want := con.CommandLine("attach", "it's; rm"), `mailroom attach --data 'my data' 'it'\''s; rm'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
