package thread_test

import (
	"fmt"
	"testing"
	"time"

	"mailroom"
	"mailroom/thread"
)

func delayed(w *fixture, run string, d time.Duration) thread.Submit {
	s := in("", run)
	s.NotBefore = w.now.Add(d)
	return s
}

func urgent(run string, priority int) thread.Submit {
	s := in("", run)
	s.Priority = &priority
	return s
}

func TestRunsStartByPriorityThenPlace(t *testing.T) {
	w := newFixture(t)
	for _, s := range []thread.Submit{urgent("a", 200), urgent("b", 128), urgent("c", 0), urgent("d", 128),
		urgent("e", 255), urgent("f", 0)} {
		w.must(s)
	}
	wantEqual(t, "due", w.row.Due, mailroom.Due{At: w.now, Agent: "echo", Priority: 0})
	for _, want := range []string{"c", "f", "b", "d", "a", "e"} {
		w.mustStart(want)
		w.end(completed("ok"))
	}
}

func TestEachSubmitGetsTheNextPlace(t *testing.T) {
	w := newFixture(t)
	for want := int64(1); want <= 5; want++ {
		wantEqual(t, "place", w.must(in("", fmt.Sprint("r", want))).Place, want)
	}
}

func TestAStartedRunIsFinishedBeforeAnotherStarts(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.must(urgent("b", 0))
	wantEqual(t, "due while a runs", w.row.Due, mailroom.Due{})
	w.end(failed(mailroom.ClassTransient))
	wantEqual(t, "due in backoff", w.row.Due, mailroom.Due{At: w.now.Add(250 * time.Millisecond), Agent: "echo",
		Priority: 128})
	if r := w.start(); r != nil {
		t.Errorf("started %s while a is in backoff", r.ID)
	}
	w.wait(250 * time.Millisecond)
	w.mustStart("a")
	w.end(released())
	w.mustStart("a")
	w.end(completed("ok"))
	w.mustStart("b")
}

func TestAThreadIsDueSinceItsFirstWaitingRunAndAgainAfterATurn(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	began := w.now
	w.wait(time.Second)
	w.must(urgent("b", 3))
	wantEqual(t, "due", w.row.Due, mailroom.Due{At: began, Agent: "echo", Priority: 3})
	w.mustStart("b")
	w.wait(time.Second)
	w.end(completed("ok"))
	wantEqual(t, "due after a turn", w.row.Due, mailroom.Due{At: w.now, Agent: "echo", Priority: 128})
}

func TestAScheduledRunBlocksNoOther(t *testing.T) {
	w := newFixture(t)
	held := delayed(w, "held", time.Minute)
	zero := 0
	held.Priority = &zero
	w.must(held)
	wantEqual(t, "due", w.row.Due, mailroom.Due{At: held.NotBefore, Agent: "echo"})
	w.must(in("", "a"))
	w.mustStart("a")
	w.end(completed("ok"))
	if r := w.start(); r != nil {
		t.Errorf("started %s before its time", r.ID)
	}
	w.wait(time.Minute)
	w.mustStart("held")
}

func TestAScheduledRunEntersTheQueueWhenItsTimeComes(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	w.must(delayed(w, "held", time.Second))
	w.must(in("", "a"))
	w.wait(2 * time.Second)
	w.must(in("", "b")) // after the time of held
	wantEqual(t, "queue", w.queue(), "a held b")
	w.end(completed("ok"))
	for _, want := range []string{"a", "held", "b"} {
		w.mustStart(want)
		w.end(completed("ok"))
	}
}

func TestManyScheduledRunsGetPlacesInOrderOfTime(t *testing.T) {
	w := newFixture(t)
	const n = 30 // more than is loaded at once
	for i := range n {
		w.must(delayed(w, fmt.Sprintf("r%02d", (i*7)%n), time.Duration((i*7)%n/3+1)*time.Second))
	}
	var got []string
	for len(got) < n {
		if r := w.start(); r != nil {
			got = append(got, r.ID)
			w.end(completed("ok"))
			continue
		}
		w.now = w.row.Due.At
	}
	for i := range n / 3 {
		group := map[string]bool{got[3*i]: true, got[3*i+1]: true, got[3*i+2]: true}
		for j := range 3 {
			if id := fmt.Sprintf("r%02d", 3*i+j); !group[id] {
				t.Errorf("run %s did not come at second %d: order %v", id, i+1, got)
			}
		}
	}
}

func TestManyScheduledRunsCanBecomeDueAtOnce(t *testing.T) {
	w := newFixture(t)
	want := ""
	for i := range 20 {
		id := fmt.Sprintf("r%02d", i)
		w.must(delayed(w, id, time.Duration(i+1)*time.Second))
		if i < 15 {
			want += id + " "
		}
	}
	w.wait(15 * time.Second)
	w.must(in("", "now"))
	wantEqual(t, "queue", w.queue(), want+"now")
	wantEqual(t, "next", w.row.HeldAt, w.now.Add(time.Second))
}

func TestANotBeforeInThePastIsNow(t *testing.T) {
	w := newFixture(t)
	w.must(delayed(w, "a", -time.Hour))
	w.mustStart("a")
}

func TestAnEmptyThreadIsNeverDue(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.end(completed("ok"))
	wantEqual(t, "due", w.row.Due, mailroom.Due{})
	w.must(in("", "b"))
	if _, err := w.cancel("b"); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "due", w.row.Due, mailroom.Due{})
}

// A submit behind a queue sees the row only: the head is who the row says, or
// the new run if its priority is lower.
func TestASubmitBehindAQueueNeedsNoneOfIt(t *testing.T) {
	w := newFixture(t)
	w.must(urgent("a", 100))
	at := w.row.Due.At
	for _, c := range []struct {
		run            string
		priority, head int
	}{{"b", 128, 100}, {"c", 100, 100}, {"d", 50, 50}, {"e", 60, 50}, {"f", 50, 50}} {
		w.now = w.now.Add(time.Second)
		s := urgent(c.run, c.priority)
		if got := s.Scope(&w.row, w.now); got != thread.ScopeRow {
			t.Errorf("submit of %s looks at %v, want the row", c.run, got)
		}
		w.must(s)
		wantEqual(t, "due after "+c.run, w.row.Due, mailroom.Due{At: at, Agent: "echo", Priority: c.head})
	}
	for _, want := range []string{"d", "f", "e", "a", "c", "b"} {
		w.mustStart(want)
		w.end(completed("ok"))
	}
}
