package exec

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"mailroom/agent/exec/program"
)

func TestTheManualStatesTheOutputLimitOfBothKinds(t *testing.T) {
	manual, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("| writes more than %d MiB |", defaultMaxOutput>>20); !strings.Contains(string(manual), want) {
		t.Errorf("docs/agents.md does not say %q", want)
	}
	command, err := newAgent(Options{Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewProgram(ProgramOptions{Profile: program.All()[0]})
	if err != nil {
		t.Fatal(err)
	}
	if got := []int64{command.options.MaxOutput, a.(*programAgent).options.MaxOutput}; got[0] != defaultMaxOutput ||
		got[1] != defaultMaxOutput {
		t.Errorf("limits are %d, want %d for both", got, defaultMaxOutput)
	}
}
