package entry_test

import (
	"testing"

	"mailroom/entry"
)

func TestTheIDOfAMessageSaysItsPlaceInItsAttempt(t *testing.T) {
	const run = "01994d2e-8c00-7000-8000-000000000001"
	if got := entry.MessageID(run, 2, 13); got != run+".2-13" {
		t.Error("the promised format has changed:", got)
	}
	for n := 1; n < 120; n++ {
		if got, ok := entry.MessageNumber(entry.MessageID(run, 3, n), run, 3); got != n || !ok {
			t.Fatalf("message %d is read as %d, %v", n, got, ok)
		}
	}
	for _, id := range []string{
		"", run, run + ".2", run + ".2-", run + ".2-0", run + ".2--1", run + ".2-+1", run + ".2-01", run + ".2-1 ",
		run + ".2-1.5",
		run + ".1-1", run + ".21-1", run + ".02-1", "x" + run + ".2-1", run + ".2-99999999999999999999",
	} {
		if n, ok := entry.MessageNumber(id, run, 2); ok || n != 0 {
			t.Errorf("%q is taken for message %d of attempt 2", id, n)
		}
	}
}
