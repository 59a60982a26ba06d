package exec

import (
	"encoding/json"
	"testing"

	"mailroom/agent/exec/program"
)

func TestASilentProgramWaitsForItsOldestOpenCall(t *testing.T) {
	var c calls
	start := func(id, name, args string) {
		c.apply(program.ToolStarted{Call: id, Name: name, Arguments: json.RawMessage(args)})
	}
	want := func(text string) {
		t.Helper()
		if got := c.waitsOn(); got != text {
			t.Errorf("it waits on %q, want %q", got, text)
		}
	}
	want("")
	start("1", "Bash", `{"command":"cargo test","timeout":5}`)
	start("2", "shell", `{"command":["bash","-lc","make"]}`)
	start("3", "read", `{"path":"x"}`)
	start("4", "odd\x00\xff", `[1]`)
	want("tool call: Bash cargo test")
	for _, s := range []struct{ ends, then string }{{"1", "tool call: shell bash -lc make"}, {"2", "tool call: read"},
		{"3", "tool call: odd\ufffd"}, {"4", ""}} {
		c.apply(program.ToolFinished{Call: s.ends})
		want(s.then)
	}
}
