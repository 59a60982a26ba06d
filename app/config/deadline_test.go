package config

import (
	"testing"
	"time"

	"mailroom/agent/exec/program"
)

func TestProgramsHaveALongerDeadlineUnlessOneIsSet(t *testing.T) {
	for file, want := range map[string][3]time.Duration{ // of echo, of the configured claude, of codex as it is found
		"":                       {time.Hour, 24 * time.Hour, 24 * time.Hour},
		"run_deadline = \"30m\"": {30 * time.Minute, 30 * time.Minute, 30 * time.Minute},
		"run_deadline = \"48h\"": {48 * time.Hour, 48 * time.Hour, 48 * time.Hour},
	} {
		c, err := Parse("f.toml", []byte(file+"\n[agents.claude]\n"), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]time.Duration{c.Agents["echo"].Deadline, c.Agents["claude"].Deadline,
			c.ProgramAgent(program.Find("codex")).Deadline}; got != want {
			t.Errorf("%q: deadlines %v, want %v", file, got, want)
		}
	}
	c, err := Parse("f.toml", []byte("[agents.claude]\ndeadline = \"2h\"\n"), nil, nil)
	if err != nil || c.Agents["claude"].Deadline != 2*time.Hour {
		t.Errorf("a deadline of its own: %v, %v", c.Agents["claude"].Deadline, err)
	}
}
