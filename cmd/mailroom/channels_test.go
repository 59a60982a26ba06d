package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"mailroom/app/node"
	"mailroom/channel"
)

func TestTheStatesOfChannelsAreExplainedInTheHelpAndTheManual(t *testing.T) {
	var help bytes.Buffer
	m := Main{Stdout: &help, Stderr: &help, Env: func(string) string { return "" }}
	if code := m.Run(t.Context(), []string{"channels", "--help"}); code != exitDone {
		t.Fatalf("exit code %d: %s", code, &help)
	}
	manual, err := os.ReadFile("../../docs/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range channel.Descriptions() {
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", d.Condition, d.Meaning, d.Action); !strings.Contains(string(manual),
			row) {
			t.Errorf("docs/channels.md has no row %s", row)
		}
		if !strings.Contains(help.String(), fmt.Sprintf("\n%-11s%s ", d.Condition, d.Meaning)) {
			t.Errorf("the help has no row of %s:\n%s", d.Condition, &help)
		}
	}
	for line := range strings.Lines(node.ChannelStates()) {
		if len(line) > 100 {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
	}
}
