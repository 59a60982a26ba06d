package main

import (
	"slices"
	"strings"
	"testing"

	"mailroom/channel/platformtest"
	"mailroom/entry"
)

// TestAKillBetweenThePartsOfAReplyRepeatsNothing kills the server while a command is answered between the messages of a
// long reply. The parts arrive once and in order, and so does the answer.
func TestAKillBetweenThePartsOfAReplyRepeatsNothing(t *testing.T) {
	t.Parallel()
	b := newTelegramFixture(t, `if [ "$text" = report ]; then seq -f 'line %05.0f of the report' 1 1000; exit 0; fi;`)
	b.tg.Up(t)
	b.serve()
	b.say("report")
	sent := func(n int) {
		platformtest.WaitFor(t, "messages of the reply", func() bool { return len(b.texts()) >= n })
	}
	sent(2)
	b.say("/status")
	b.waitEntries(b.out(), entry.KindRescheduled, 1)
	b.server.kill()
	b.serve()
	b.say("last")
	platformtest.WaitFor(t, "the last reply", func() bool { return slices.Contains(b.texts(), "LAST") })
	var lines []string
	answers := 0
	for i, text := range b.texts() {
		if strings.Contains(text, "shout is idle.") {
			answers++
			if i > 5 {
				t.Errorf("the answer is message %d", i+1)
			}
			continue
		}
		lines = append(lines, strings.Split(text, "\n")...)
	}
	if answers == 0 || answers > 2 { // Telegram cannot tell whether the answer arrived before the kill
		t.Errorf("the command is answered %d times", answers)
	}
	if lines = slices.DeleteFunc(lines, func(l string) bool {
		return !strings.HasPrefix(l, "line ")
	}); len(lines) != 1000 || !slices.IsSorted(lines) {
		t.Errorf("%d lines, sorted %t", len(lines), slices.IsSorted(lines))
	}
	b.server.kill()
}
