package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/doctor"
	"mailroom/store/memory"
)

// lived are the rows of a thread where run a was completed, b runs and c waits
// for its turn.
func lived(t *testing.T) *mailroom.Changes {
	t.Helper()
	now := time.Now().UTC().Add(-time.Minute).Truncate(time.Microsecond)
	l := mailroom.Load(&mailroom.Thread{ID: "t"})
	for _, id := range []string{"a", "b", "c"} {
		in := mailroom.Submit{Thread: "t", Run: id, Agent: "echo", Messages: []mailroom.Draft{{Parts: mailroom.Text("hello")}}}
		if _, err := l.Submit(in, now); err != nil {
			t.Fatal(err)
		}
	}
	l.Claim("w", 1, "echo", false, now)
	done := mailroom.Settle{Claim: mailroom.Claim{Thread: "t", Run: "a", Attempt: 1}, Number: 1, Outcome: mailroom.Complete}
	if _, err := l.Settle(&done, now); err != nil {
		t.Fatal(err)
	}
	l.Claim("w", 2, "echo", false, now)
	c := &mailroom.Changes{Workers: []*mailroom.Worker{{ID: "w", LeaseUntil: now.Add(time.Hour)}}}
	l.Collect(c)
	return c
}

// another puts one more entry of run id at the end of the log.
func another(t *testing.T, c *mailroom.Changes, kind, run string, attempt int) {
	t.Helper()
	row := c.Threads[0]
	row.LastSeq++
	e, err := mailroom.NewEntry("t", row.LastSeq, kind, run, attempt, row.UpdatedAt, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	c.Entries[0] = append(c.Entries[0], e)
}

func TestCheckComparesTheLogWithTheRows(t *testing.T) {
	a, b, c := 0, 1, 2 // the runs in the order of their first change
	for _, x := range []struct {
		name  string
		spoil func(ch *mailroom.Changes)
		want  string // "" is nothing
	}{
		{"as it was", func(*mailroom.Changes) {}, ""},
		{"two at a time", func(ch *mailroom.Changes) { another(t, ch, mailroom.KindStarted, "c", 1); ch.Runs[c].Attempt = 1 }, "starts run c before the end of run b"},
		{"an end that no row knows", func(ch *mailroom.Changes) { another(t, ch, mailroom.KindCompleted, "b", 1) }, `the log ends in run "", the current run is "b"`},
		{"another status", func(ch *mailroom.Changes) { ch.Runs[a].Status = mailroom.Cancelled }, `run a is cancelled, the log ends it with "run.completed"`},
		{"a place twice", func(ch *mailroom.Changes) { ch.Runs[c].Place = 4; ch.Threads[0].NextPlace = 4 }, "run c has place 4, the next one is 4"},
		{"another's message", func(ch *mailroom.Changes) { ch.Runs[b].Inputs[0].Seq = 1 }, `has message b.3 at entry 1, which is message "a.1"`},
		{"an attempt of the past", func(ch *mailroom.Changes) { another(t, ch, mailroom.KindStep, "a", 0) }, "has attempt 0 after 1"},
		{"an attempt of the future", func(ch *mailroom.Changes) { another(t, ch, mailroom.KindStep, "a", 2) }, "has attempt 2, the run says 1"},
		{"nobody's entry", func(ch *mailroom.Changes) { another(t, ch, mailroom.KindStep, "nobody", 0) }, "names run nobody"},
		{"an end cut off", func(ch *mailroom.Changes) { ch.Threads[0].LastSeq++ }, "the log ends at"},
	} {
		t.Run(x.name, func(t *testing.T) {
			rows := lived(t)
			x.spoil(rows)
			s := memory.New()
			if err := s.Update(t.Context(), func(tx mailroom.Tx) error { return tx.Write(rows) }); err != nil {
				t.Fatal(err)
			}
			report, err := doctor.Check(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(report.Findings); x.want == "" && len(report.Findings) > 0 || !strings.Contains(got, x.want) {
				t.Errorf("got %s, want %q", got, x.want)
			}
		})
	}
}
