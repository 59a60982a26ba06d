package thread_test

import (
	"testing"

	"mailroom"
	"mailroom/thread"
)

func givesWay(to string) thread.Settle {
	return thread.Settle{Outcome: thread.OutcomeRelease, GiveWay: to}
}

// TestARunThatGivesWayKeepsItsPlace lets the last of three runs pass the first one.
func TestARunThatGivesWayKeepsItsPlace(t *testing.T) {
	w := newFixture(t)
	for _, id := range []string{"a", "b", "c"} {
		w.must(in("", id))
	}
	w.mustStart("a")
	r := w.end(givesWay("c"))
	if r.Status != mailroom.StatusQueued || w.row.Current != "" || r.Failures+r.Crashes+r.Lost != 0 {
		t.Errorf("the run is %s, current %q: %+v", r.Status, w.row.Current, r)
	}
	for _, next := range []string{"c", "a", "b"} {
		w.mustStart(next)
		w.end(thread.Settle{Outcome: thread.OutcomeComplete})
	}
	if got := w.runs["a"].Attempt; got != 2 {
		t.Errorf("%d attempts of the run that gave way, want 2", got)
	}
}

// TestGivingWayIsARelease names runs that cannot pass, and has a run that cannot give way.
func TestGivingWayIsARelease(t *testing.T) {
	for name, prepare := range map[string]func(w *fixture) (to string){
		"a run that has ended":      func(w *fixture) string { _, _ = w.cancel("b"); return "b" },
		"a run of another thread":   func(*fixture) string { return "elsewhere" },
		"itself":                    func(*fixture) string { return "a" },
		"with a steered message":    func(w *fixture) string { s := in("", "s"); s.Mode = mailroom.ModeSteer; w.must(s); return "b" },
		"with the highest priority": func(w *fixture) string { w.runs["a"].Priority = 0; return "b" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.must(in("", "a"))
			w.must(in("", "b"))
			w.mustStart("a")
			to := prepare(w)
			if w.end(givesWay(to)); w.row.Current != "a" {
				t.Errorf("the current run is %q", w.row.Current)
			}
			w.mustStart("a")
		})
	}
}
