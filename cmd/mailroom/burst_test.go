package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"mailroom/channel/platformtest"
	"mailroom/entry"
)

// TestAServerThatIsKilledDuringABurstLosesNoMessage kills the server while a message waits for more of its user, who
// sends the rest while it is off.
func TestAServerThatIsKilledDuringABurstLosesNoMessage(t *testing.T) {
	t.Parallel()
	c := newTelegramFixture(t, "")
	c.tg.Up(t)
	settings, err := os.ReadFile(c.dir.Config())
	if err != nil {
		t.Fatal(err)
	}
	c.configure(strings.NewReplacer(`join_within = "0s"`, `join_within = "5s"`, "read -r text;",
		"text=$(cat);").Replace(string(settings)))
	c.say("one")
	c.serve()
	c.waitEntries(c.thread, entry.KindMessage, 1)
	c.server.kill()
	if got := c.agentInputs(); len(got) > 0 {
		t.Errorf("the agent has read %q before the end of the wait", got)
	}
	c.say("two")
	c.say("three")
	c.serve()
	want := []string{"one", "two", "three"}
	platformtest.WaitFor(t, "all messages", func() bool { return len(c.agentInputs()) >= len(want) })
	platformtest.WaitFor(t, "the answer to the last one", func() bool {
		return slices.ContainsFunc(c.texts(), func(s string) bool { return strings.Contains(s, "THREE") })
	})
	if got := c.agentInputs(); !slices.Equal(got, want) {
		t.Errorf("the agent has read %q, want %q", got, want)
	}
	if all := strings.Fields(strings.Join(c.texts(), " ")); !slices.Equal(all, []string{"ONE", "TWO", "THREE"}) {
		t.Errorf("replies %q", c.texts())
	}
	c.server.kill()
}
