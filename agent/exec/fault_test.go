package exec_test

import (
	"strings"
	"testing"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/entry"
)

// TestAFaultOfTheProgramPausesItsAgent has a program without a login, one that is missing, and one whose arguments are
// rejected. The message waits, and the pause says why.
func TestAFaultOfTheProgramPausesItsAgent(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*exec.ProgramOptions)
		reason string
	}{
		"no login": {nil, "Please run /login"},
		"missing program": {func(o *exec.ProgramOptions) {
			o.Program = "/nowhere/claude"
		}, "/nowhere/claude: no such file or directory"},
		"missing folder": {func(o *exec.ProgramOptions) { o.Dir += "/nowhere" }, "working directory: "},
		"no interpreter": {func(o *exec.ProgramOptions) {
			o.Env = append(o.Env, stubDoes+"=has no node")
		}, "something that it needs is missing"},
		"an unknown flag": {func(o *exec.ProgramOptions) {
			o.Env = append(o.Env, stubDoes+"=rejects its arguments")
		}, "rejected its arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change == nil {
				c.change = func(*exec.ProgramOptions) {}
			}
			h := newFixture(t, "", c.change)
			run := h.send("t", "!logged out")
			var body entry.RunRescheduled
			if err := h.await("t", run, entry.KindRescheduled, entry.KindFailed).Decode(&body); err != nil {
				t.Fatal(err)
			}
			pauses, err := h.Pauses(t.Context())
			if err != nil || len(pauses) != 1 || pauses[0].Agent != "claude" || !strings.Contains(pauses[0].Reason, c.reason) {
				t.Errorf("pauses %+v, %v; want one that says %q", pauses, err, c.reason)
			}
			if body.Error == nil || body.Error.Class != mailroom.ClassUnavailable {
				t.Errorf("the run waits with %+v", body.Error)
			}
		})
	}
}
