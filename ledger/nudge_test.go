package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mailroom/ledger"
	"mailroom/store/memory"
)

// TestANudgeFindsWorkOfAnotherLedger polls once an hour, so only the nudge finds the run.
func TestANudgeFindsWorkOfAnotherLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		var due []string
		first := open(t, st, ledger.Options{Poll: time.Hour, Due: func(agent string) { due = append(due, agent) }})
		second := open(t, st, ledger.Options{Poll: time.Hour})
		second.register("w")
		k := &testClaimer{free: 2}
		end := subscribe(t.Context(), second, k)
		first.submit(text("a", "hello"))
		wantEqual(t, "due agents", due, []string{"echo"})
		synctest.Wait()
		wantEqual(t, "before a nudge", k.drain(0), []string{})
		second.Ledger.Nudge("other")
		synctest.Wait()
		wantEqual(t, "for another agent", k.drain(0), []string{})
		second.Ledger.Nudge(due[0])
		synctest.Wait()
		wantEqual(t, "after a nudge", k.drain(0), []string{"a"})
		first.submit(text("b", "hello"))
		second.Ledger.Nudge("")
		synctest.Wait()
		wantEqual(t, "after a nudge for all agents", k.drain(0), []string{"b"})
		second.submit(text("c", "hello"))
		wantEqual(t, "due agents", len(due), 2)
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}
